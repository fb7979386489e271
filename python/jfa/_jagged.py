"""Batches that carry their own offsets: PyTorch's jagged nested tensors, TorchRec's JaggedTensor."""

import torch

from . import errors


def offsets_of(lengths):
    """The offsets [batch + 1] of sequences of these lengths, on the same device, of the same integer type."""
    if not isinstance(lengths, torch.Tensor):
        lengths = torch.tensor(lengths, dtype=torch.int64)
    if lengths.dim() != 1 or lengths.dtype not in (torch.int32, torch.int64):
        raise errors.invalid("lengths", f"{lengths.dtype} {list(lengths.shape)}", "one dimension of int32 or int64 is "
                             "wanted")
    offsets = lengths.new_zeros(lengths.shape[0] + 1)
    torch.cumsum(lengths, 0, dtype=lengths.dtype, out=offsets[1:])
    return offsets


class _Dense:
    """A tensor whose offsets are given beside it."""

    def __init__(self, values, offsets):
        self.values, self.offsets = values, offsets

    def like(self, output):
        return output


class _Nested:
    """A nested tensor of layout torch.jagged: [batch, j, H, D], or [batch, H, j, D]."""

    def __init__(self, name, tensor):
        if tensor.layout != torch.jagged:
            raise errors.invalid(f"{name}.layout", tensor.layout, "torch.jagged is wanted")
        if tensor.dim() != 4 or tensor._ragged_idx not in (1, 2):
            raise errors.invalid(f"{name}.shape", list(tensor.shape), "[batch, j, H, D] or [batch, H, j, D] is wanted, "
                                 "jagged in j")
        if tensor.lengths() is not None:
            raise errors.unsupported(f"{name}.lengths", "given", "sequences with gaps between them; "
                                     ".contiguous() closes them")
        self.heads_first = tensor._ragged_idx == 2
        packed = tensor.transpose(1, 2) if self.heads_first else tensor
        self.values, self.offsets = packed.values(), packed.offsets()

    def like(self, output):
        nested = torch.nested.nested_tensor_from_jagged(output, offsets=self.offsets)
        return nested.transpose(1, 2) if self.heads_first else nested


class _TorchRec:
    """TorchRec's JaggedTensor, or what has its values() and offsets()."""

    def __init__(self, tensor):
        self.type, self.values, self.offsets = type(tensor), tensor.values(), tensor.offsets()

    def like(self, output):
        return self.type(values=output, offsets=self.offsets)


def _unpacked(name, tensor, offsets):
    if isinstance(tensor, torch.Tensor):
        if not tensor.is_nested:
            return _Dense(tensor, offsets)
        jagged = _Nested(name, tensor)
    elif callable(getattr(tensor, "values", None)) and callable(getattr(tensor, "offsets", None)):
        jagged = _TorchRec(tensor)
    else:
        raise errors.invalid(name, type(tensor).__name__,
                             "a torch.Tensor [rows, heads, head_dim], a jagged nested tensor or a JaggedTensor is "
                             "wanted")
    if offsets is not None:
        argument = "query_offset" if name == "query" else "key_offset"
        raise errors.invalid(argument, "given", f"{name} has offsets of its own")
    return jagged


def attention(function, query, key, value, query_offset, key_offset, output_offset, window, broadcast_q, scale,
              return_lse):
    """function, which takes tensors, of whatever query, key and value are."""
    query = _unpacked("query", query, query_offset)
    key = _unpacked("key", key, key_offset)
    value = _unpacked("value", value, None)
    if not isinstance(value, type(key)):
        raise errors.invalid("value", "of another kind than key", "both are jagged, or neither")
    if broadcast_q and not isinstance(query, _Dense):
        raise errors.invalid("query", "jagged", "with broadcast_q it is one sequence [q_len, Hq, D]")
    result = function(query.values, key.values, value.values, query.offsets, key.offsets, output_offset, window,
                      broadcast_q, scale, return_lse)
    if return_lse:
        return query.like(result[0]), result[1]
    return query.like(result)
