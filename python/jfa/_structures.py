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
_call = struct.Struct("<Q" + 3 * _TENSOR + 3 * _OFFSETS + "qd6i")
_configuration = struct.Struct("<Q3qQ4i")

pack_tensor = _tensor.pack
pack_output_gradient = _output_gradient.pack
pack_workspace = _workspace.pack


def pack_call(query, key, value, query_offset, key_offset, output_offset, window, broadcast_q, scale):
    """A jfa_call. Tensors and offsets are tuples of their fields; output_offset, window and scale may be None."""
    try:
        return _call.pack(
            288, *query, *key, *value, *query_offset, *key_offset, *(output_offset or NO_OFFSETS),
            0 if window is None else window, 0.0 if scale is None else scale,
            output_offset is not None, window is not None, scale is not None, broadcast_q, 0, 0)
    except struct.error:
        raise _misfit(window, broadcast_q, scale) from None


def _misfit(window, broadcast_q, scale):
    """The error of the option that does not fit into its field."""
    if not isinstance(broadcast_q, int):
        return errors.invalid("broadcast_q", repr(broadcast_q), "True or False is wanted")
    if not isinstance(scale, (int, float, type(None))):
        return errors.invalid("scale", repr(scale), "a number is wanted, or None")
    return errors.invalid("window", repr(window), "a whole number below 2^63 is wanted, or None")


def pack_configuration(direction, dtype, head_dim, window, groups, broadcast_q, target_address=0):
    """A jfa_configuration. target_address: of a C string that outlives the call, or 0 for the default target."""
    return _configuration.pack(56, head_dim, 0 if window is None else window, groups, target_address, direction, dtype,
                               window is not None, broadcast_q)


assert _call.size == 288 and _tensor.size == 56 and _configuration.size == 56 and _output_gradient.size == 64
