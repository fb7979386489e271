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


def symmetric_window(window_size, query_offset, key_offset):
    """jfa's window for flash-attn's (left, right), which counts from the ends of the sequences.

    The two alignments are one for queries and keys of the same lengths, which one tensor as the offsets of both tells.
    """
    try:
        left, right = (int(side) for side in window_size)
    except (TypeError, ValueError):
        raise errors.invalid("window_size", window_size, "two whole numbers (left, right) are wanted") from None
    if left < 0 and right < 0:
        return None
    shown = (left, right)
    if left != right:
        raise errors.unsupported("window_size", shown, "there is no causal mask yet" if shown == (-1, 0) else
                                 "only (-1, -1) and symmetric windows (W, W) so far")
    if not _same_offsets(query_offset, key_offset):
        raise errors.unsupported(
            "window_size", shown, "here it is aligned to the sequences' ends, in jfa to their beginnings, which is the "
            "same only for equal lengths: pass one tensor as the offsets of both")
    return left


def _same_offsets(first, second):
    """Whether two offset tensors are one, which is all that can be known without waiting for the device."""
    if first is second:
        return True
    if torch.compiler.is_compiling() or not (isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)):
        return False
    return (first.data_ptr() == second.data_ptr() and first.shape == second.shape and
            first.stride() == second.stride() and first.dtype == second.dtype)
