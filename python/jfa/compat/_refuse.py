"""What the adapters refuse, and what they take for granted."""

import torch

from .. import errors


def unless(default, name, value, why):
    """Raises Unsupported unless value is the default, which asks for nothing."""
    if value is default or (type(value) is type(default) and value == default):
        return
    if isinstance(default, (int, float)) and isinstance(value, (int, float)) and value == default:
        return
    raise errors.unsupported(name, value, why)


def window_from_ends(window_size, causal, query_offset, key_offset):
    """The arguments window and alignment of jfa.attention() for flash-attn's (left, right), which counts from the ends.

    For queries and keys of the same lengths, which one tensor as the offsets of both tells, it is as well to count from
    their beginnings: the same kernels then serve both packages' calls.
    """
    try:
        left, right = (int(side) for side in window_size)
    except (TypeError, ValueError):
        raise errors.invalid("window_size", window_size, "two whole numbers (left, right) are wanted") from None
    left, right = (None if side < 0 else side for side in (left, 0 if causal else right))
    at_ends = (left is not None or right is not None) and not _same_offsets(query_offset, key_offset)
    return {"window": (left, right), "alignment": "bottom_right" if at_ends else "top_left"}


def _same_offsets(first, second):
    """Whether two offset tensors are one, which is all that can be known without waiting for the device."""
    if first is second:
        return True
    if torch.compiler.is_compiling() or not (isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)):
        return False
    return (first.data_ptr() == second.data_ptr() and first.shape == second.shape and
            first.stride() == second.stride() and first.dtype == second.dtype)
