"""The structures of jfa/jfa.h, packed into bytes.

One pack() of a whole call costs a third of what assigning ctypes fields does, and bytes belong to one call, so threads
share nothing.
"""

import struct

from . import errors

BF16, FP16 = 0, 1
INT32, INT64 = 0, 1
FORWARD, BACKWARD = 0, 1

_TENSOR = "Q5q2i"  # address, rows, heads, head_dim, row_stride, head_stride, dtype, reserved
_OFFSETS = "Qq2i"  # address, count, type, reserved

NO_OFFSETS = (0, 0, INT32, 0)

_tensor = struct.Struct("<" + _TENSOR)
_output_gradient = struct.Struct("<Q6q2i")  # dim_stride behind head_stride
_workspace = struct.Struct("<2Q")
_WINDOW = "2q4i"  # left, right, has_left, has_right, alignment, reserved
_call = struct.Struct("<Q" + 3 * _TENSOR + 3 * _OFFSETS + "qd6iQ" + _WINDOW)
_configuration = struct.Struct("<Q3qQ4iQ" + _WINDOW)

pack_tensor = _tensor.pack
pack_output_gradient = _output_gradient.pack
pack_workspace = _workspace.pack


def _window_fields(window):
    """(window, has_window) and the fields of _WINDOW."""
    if not isinstance(window, tuple):
        return (0 if window is None else window, window is not None), (0, 0, 0, 0, 0, 0)
    left, right, at_ends = window
    return (0, 0), (0 if left is None else left, 0 if right is None else right, left is not None, right is not None,
                    at_ends, 0)


def pack_call(query, key, value, query_offset, key_offset, output_offset, window, broadcast_q, scale):
    """A jfa_call. Tensors and offsets are tuples of their fields; output_offset, window and scale may be None."""
    (both, has_both), sides = _window_fields(window)
    try:
        return _call.pack(
            _call.size, *query, *key, *value, *query_offset, *key_offset, *(output_offset or NO_OFFSETS),
            both, 0.0 if scale is None else scale,
            output_offset is not None, has_both, scale is not None, broadcast_q, 0, 0, 0, *sides)
    except struct.error:
        raise _misfit(window, broadcast_q, scale) from None


def _misfit(window, broadcast_q, scale):
    """The error of the option that does not fit into its field."""
    if not isinstance(broadcast_q, int):
        return errors.invalid("broadcast_q", repr(broadcast_q), "True or False is wanted")
    if not isinstance(scale, (int, float, type(None))):
        return errors.invalid("scale", repr(scale), "a number is wanted, or None")
    return errors.invalid("window", repr(window if not isinstance(window, tuple) else window[:2]),
                          "whole numbers below 2^63 are wanted, or None")


def pack_configuration(direction, dtype, head_dim, window, groups, broadcast_q, target_address=0):
    """A jfa_configuration. target_address: of a C string that outlives the call, or 0 for the default target."""
    (both, has_both), sides = _window_fields(window)
    return _configuration.pack(_configuration.size, head_dim, both, groups, target_address, direction, dtype, has_both,
                               broadcast_q, 0, *sides)


assert _call.size == 328 and _tensor.size == 56 and _configuration.size == 96 and _output_gradient.size == 64
