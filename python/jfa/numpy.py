"""Attention of numpy arrays, copied to a device and back: for tests, and for machines without PyTorch.

float16 arrays are numpy's own; bfloat16 ones have the dtype of the package ml_dtypes.
"""

import math

import numpy

from . import _host, _library, _simulate, errors
from ._structures import BF16, FP16, INT32, INT64
from ._window import window_of

_DTYPES = {"float16": FP16, "bfloat16": BF16}
_OFFSET_TYPES = {"int32": INT32, "int64": INT64}


def _device(name):
    return _library.device(name if name is not None else _simulate.required("query"))


def _host_array(array, dtype):
    return _host.HostArray(array.ctypes.data, array.shape, tuple(s // array.itemsize for s in array.strides),
                           array.itemsize, dtype)


def _fits(array):
    """Whether a device could read the array as it lies."""
    strides = [s for s, n in zip(array.strides, array.shape) if n > 1]
    return (array.ctypes.data % 16 == 0 and min(strides, default=0) >= 0 and
            (array.shape[2] <= 1 or array.strides[2] == array.itemsize) and
            all(s % 16 == 0 for s, n in zip(array.strides[:2], array.shape[:2]) if n > 1))


def _tensor(name, array, any_strides=False):
    if not isinstance(array, numpy.ndarray):
        raise errors.invalid(name, type(array).__name__, "a numpy.ndarray [rows, heads, head_dim] is wanted")
    if array.ndim != 3:
        raise errors.invalid(f"{name}.shape", array.shape, "three dimensions are wanted: rows, heads, head_dim")
    if array.dtype.name not in _DTYPES:
        raise errors.invalid(f"{name}.dtype", array.dtype.name, "float16 or ml_dtypes.bfloat16 is wanted")
    if not _fits(array) and not (any_strides and min(array.strides) >= 0):
        array = numpy.array(array, order="C")
    return array, _host_array(array, _DTYPES[array.dtype.name])


def _offsets(name, array):
    if array is None:
        return None, None
    array = numpy.ascontiguousarray(array)
    if array.ndim != 1 or array.dtype.name not in _OFFSET_TYPES:
        raise errors.invalid(name, f"{array.dtype.name} {list(array.shape)}",
                             "one dimension of int32 or int64 is wanted")
    return array, _host_array(array, _OFFSET_TYPES[array.dtype.name])


def _float32(name, array, shape):
    array = numpy.ascontiguousarray(array, dtype=numpy.float32)
    if array.shape != shape:
        raise errors.invalid(f"{name}.shape", array.shape, f"{shape} is wanted: query heads, output rows")
    return array, _host_array(array, 0)


class _Arguments:
    """The arguments that forward and backward share; keeps copies alive."""

    def __init__(self, query, key, value, query_offset, key_offset, output_offset, window, broadcast_q, scale):
        if query_offset is None and not broadcast_q:
            raise errors.invalid("query_offset", None, "it may only be left out with broadcast_q")
        if key_offset is None:
            raise errors.invalid("key_offset", None, "offsets [batch + 1] are wanted")
        if scale is not None and not math.isfinite(scale):
            raise errors.invalid("scale", scale, "it must be finite")
        self.query, query_array = _tensor("query", query)
        self.key, key_array = _tensor("key", key)
        self.value, value_array = _tensor("value", value)
        self.query_offset, query_offset_array = _offsets("query_offset", None if broadcast_q else query_offset)
        self.key_offset, key_offset_array = _offsets("key_offset", key_offset)
        self.output_offset, output_offset_array = _offsets("output_offset", output_offset)
        rows, self.heads, head_dim = query.shape
        self.rows = rows * max(self.key_offset.shape[0] - 1, 0) if broadcast_q else rows
        self.output_shape = self.rows, self.heads, head_dim
        self.call = (query_array, key_array, value_array, query_offset_array, key_offset_array, output_offset_array,
                     window, broadcast_q, scale)


def attention(query, key, value, query_offset, key_offset, *, output_offset=None, window=None, causal=False,
              alignment="top_left", broadcast_q=False, scale=None, device=None):
    """softmax(scale · query · keyᵀ) · value of every sequence of a packed batch: (output, lse).

    Arguments and results are those of jfa.attention(), as numpy arrays; output rows that no sequence owns are 0.
    device: "sim:sm_100a", "cuda:0", …; None: that of `with jfa.simulate(…)`.
    """
    window = window_of(window, causal, alignment)
    arguments = _Arguments(query, key, value, query_offset, key_offset, output_offset, window, broadcast_q, scale)
    output = numpy.zeros(arguments.output_shape, query.dtype)
    lse = numpy.zeros((arguments.heads, arguments.rows), numpy.float32)
    _host.forward(_device(device), arguments.call, _tensor("output", output)[1], _host_array(lse, 0))
    return output, lse


def attention_backward(output_grad, query, key, value, output, lse, query_offset, key_offset, *, lse_grad=None,
                       output_offset=None, window=None, causal=False, alignment="top_left", broadcast_q=False,
                       scale=None, device=None):
    """The gradients (query_grad, key_grad, value_grad) of attention(). output, lse: what it returned.

    output_grad: [output rows, heads, head_dim] of any strides; lse_grad: [heads, output rows] or None.
    """
    window = window_of(window, causal, alignment)
    arguments = _Arguments(query, key, value, query_offset, key_offset, output_offset, window, broadcast_q, scale)
    output, output_array = _tensor("output", output)
    output_grad, output_grad_array = _tensor("output_grad", output_grad, any_strides=True)
    stats_shape = (arguments.heads, arguments.rows)
    lse, lse_array = _float32("lse", lse, stats_shape)
    lse_grad_array = None
    if lse_grad is not None:
        lse_grad, lse_grad_array = _float32("lse_grad", lse_grad, stats_shape)
    gradients = [numpy.zeros(array.shape, array.dtype) for array in (query, key, value)]
    _host.backward(_device(device), arguments.call, output_array, lse_array, output_grad_array, lse_grad_array,
                   [_tensor("gradient", gradient)[1] for gradient in gradients])
    return tuple(gradients)
