"""What the adapters refuse, and what they take for granted."""

from .. import errors


def unless(default, name, value, why):
    """Raises Unsupported unless value is the default, which asks for nothing."""
    if value is default or (type(value) is type(default) and value == default):
        return
    if isinstance(default, (int, float)) and isinstance(value, (int, float)) and value == default:
        return
    shown = f"a tensor {list(value.shape)}" if hasattr(value, "shape") else value
    raise errors.unsupported(name, shown, why)


def symmetric_window(window_size, same_lengths):
    """jfa's window for flash-attn's (left, right), which counts from the ends of the sequences.

    same_lengths: whether queries and keys are known to be of the same lengths; else the two alignments differ.
    """
    left, right = (int(side) for side in window_size)
    if left < 0 and right < 0:
        return None
    shown = (left, right)
    if left != right:
        raise errors.unsupported("window_size", shown, "only (-1, -1) and symmetric windows (W, W) so far")
    if not same_lengths:
        raise errors.unsupported(
            "window_size", shown, "here it is aligned to the sequences' ends, in jfa to their beginnings, which is the "
            "same only for equal lengths: pass one tensor as the offsets of both")
    return left


def same_offsets(first, second):
    """Whether two offset tensors are one, which is all that can be known without waiting for the device."""
    return first is second or (first.data_ptr() == second.data_ptr() and first.shape == second.shape and
                               first.stride() == second.stride() and first.dtype == second.dtype)
