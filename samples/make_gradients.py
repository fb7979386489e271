"""Writes gradients.safetensors, for `jfa run … --backward`: a part of sentences.safetensors (its first 12
sequences, one of them empty, and 4 of its 12 heads) with an output_grad.

The gradient is that of a loss: the outputs of a sentence are pooled by their mean, and the pools are to lie apart,
so the loss is minus half the sum of their squared distances from the mean of all pools. Requirements: those of
minilm.py but for the model.
"""

import json
import pathlib
import struct

import numpy

import minilm

SEQUENCES = 12
HEADS = 4


def read_safetensors(path):
    data = path.read_bytes()
    (header_bytes,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + header_bytes])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + header_bytes + offset for offset in entry["data_offsets"])
        dtype = {"BF16": "<u2", "I32": "<i4"}[entry["dtype"]]
        tensors[name] = numpy.frombuffer(data[begin:end], dtype).reshape(entry["shape"])
    return tensors, header["__metadata__"]


def from_bf16(bits):
    return (bits.astype(numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64)


def attention(query, key, value):
    scores = numpy.einsum("ihd,jhd->hij", query, key) / numpy.sqrt(query.shape[2])
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    return numpy.einsum("hij,jhd->ihd", weights / weights.sum(-1, keepdims=True), value)


def main():
    folder = pathlib.Path(__file__).parent
    source, metadata = read_safetensors(folder / "sentences.safetensors")
    offsets = source["query_offset"][: SEQUENCES + 1]
    lengths = numpy.diff(offsets)
    tensors = {name: source[name][: offsets[-1], :HEADS] for name in ("query", "key", "value")}
    query, key, value = (from_bf16(tensors[name]) for name in ("query", "key", "value"))
    sentences = [slice(begin, end) for begin, end in zip(offsets, offsets[1:]) if end > begin]
    pools = numpy.stack([attention(query[rows], key[rows], value[rows]).mean(0) for rows in sentences])
    output_grad = numpy.zeros_like(query)
    for rows, pool in zip(sentences, pools):
        output_grad[rows] = -(pool - pools.mean(0)) / (rows.stop - rows.start)
    tensors["output_grad"] = minilm.to_bf16(output_grad)
    tensors["query_offset"] = tensors["key_offset"] = minilm.offsets(lengths)
    metadata = {"source": metadata["source"] + "; a part of sentences.safetensors", "made_by": "samples/make_gradients.py"}
    path = folder / "gradients.safetensors"
    minilm.write_safetensors(path, tensors, metadata)
    print(f"{path.name}: {path.stat().st_size} bytes, lengths {lengths.tolist()}, total {offsets[-1]}")


if __name__ == "__main__":
    main()
