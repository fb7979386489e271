"""libjfa.so for Python: jfa/jfa.h by ctypes. Needs nothing but the standard library.

Names and fields are those of the header, which describes them; tensors may be anything with data_ptr(), shape,
stride() and dtype like PyTorch's (see tensor_of), or a Tensor filled by hand. What is wrong with offsets is found on
the device: the Error comes from jfa_synchronize() of the stream, or from the next call on it.
"""

import ctypes
from ctypes import c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint64, c_void_p

BF16, FP16 = 0, 1
INT32, INT64 = 0, 1
FORWARD, BACKWARD = 0, 1


class Tensor(ctypes.Structure):
    _fields_ = [("address", c_uint64), ("rows", c_int64), ("heads", c_int64), ("head_dim", c_int64),
                ("row_stride", c_int64), ("head_stride", c_int64), ("dtype", c_int32), ("reserved", c_int32)]


class OutputGradient(ctypes.Structure):
    _fields_ = [("address", c_uint64), ("rows", c_int64), ("heads", c_int64), ("head_dim", c_int64),
                ("row_stride", c_int64), ("head_stride", c_int64), ("dim_stride", c_int64), ("dtype", c_int32),
                ("reserved", c_int32)]


class Offsets(ctypes.Structure):
    _fields_ = [("address", c_uint64), ("count", c_int64), ("type", c_int32), ("reserved", c_int32)]


class Workspace(ctypes.Structure):
    _fields_ = [("address", c_uint64), ("bytes", c_uint64)]


class _Sized(ctypes.Structure):
    """A structure whose first field is its size."""

    def __init__(self, **fields):
        super().__init__(**fields)
        self.struct_bytes = ctypes.sizeof(self)


class Call(_Sized):
    _fields_ = [("struct_bytes", c_uint64), ("query", Tensor), ("key", Tensor), ("value", Tensor),
                ("query_offset", Offsets), ("key_offset", Offsets), ("output_offset", Offsets), ("window", c_int64),
                ("scale", c_double), ("has_output_offset", c_int32), ("has_window", c_int32), ("has_scale", c_int32),
                ("broadcast_q", c_int32), ("deterministic", c_int32), ("reserved", c_int32)]


class Configuration(_Sized):
    _fields_ = [("struct_bytes", c_uint64), ("head_dim", c_int64), ("window", c_int64), ("groups", c_int64),
                ("target", c_char_p), ("pass_", c_int32), ("dtype", c_int32), ("has_window", c_int32),
                ("broadcast_q", c_int32)]


class Error(RuntimeError):
    """A call that failed. kind: its name in words; detail: a compiler's log and the like, often empty."""

    def __init__(self, kind, message, detail):
        super().__init__(message)
        self.kind = kind
        self.detail = detail


_pointer = ctypes.POINTER
_DEVICE = c_void_p
_STREAM = c_void_p
_CALLS = {  # those that return a jfa_error
    "jfa_device_open": [c_char_p, _pointer(_DEVICE)],
    "jfa_allocate": [_DEVICE, c_uint64, _pointer(c_uint64)],
    "jfa_free": [_DEVICE, c_uint64],
    "jfa_upload": [_DEVICE, c_uint64, c_void_p, c_uint64],
    "jfa_download": [_DEVICE, c_void_p, c_uint64, c_uint64],
    "jfa_fill": [_DEVICE, c_uint64, c_uint8, c_uint64],
    "jfa_synchronize": [_DEVICE, _STREAM],
    "jfa_forward": [_DEVICE, _pointer(Call), _pointer(Tensor), c_uint64, _pointer(Workspace), _STREAM],
    "jfa_workspace_bytes": [_pointer(Call), _pointer(c_uint64)],
    "jfa_backward": [_DEVICE, _pointer(Call), _pointer(Tensor), c_uint64, _pointer(OutputGradient), c_uint64,
                     _pointer(Tensor), _pointer(Tensor), _pointer(Tensor), _pointer(Workspace), _STREAM],
    "jfa_backward_workspace_bytes": [_pointer(Call), _pointer(OutputGradient), _pointer(c_uint64)],
    "jfa_status": [_DEVICE, _pointer(Workspace), _STREAM],
    "jfa_supported": [_pointer(Configuration)],
    "jfa_supported_head_dims": [_pointer(c_int64), c_size_t, _pointer(c_size_t)],
    "jfa_prepare": [_DEVICE, _pointer(Configuration)],
}


class Library:
    """libjfa.so at `path`. Calls are attributes: library.jfa_forward(…); they raise Error."""

    def __init__(self, path):
        self._library = ctypes.CDLL(path)
        for name, arguments in _CALLS.items():
            function = getattr(self._library, name)
            function.argtypes = arguments
            function.restype = c_int32
            function.errcheck = self._check
            setattr(self, name, function)
        for name in ("jfa_last_error_message", "jfa_last_error_detail", "jfa_version"):
            getattr(self._library, name).restype = c_char_p
        self._library.jfa_error_name.argtypes = [c_int32]
        self._library.jfa_error_name.restype = c_char_p
        for name in ("jfa_device_name", "jfa_device_target"):
            getattr(self._library, name).argtypes = [_DEVICE]
            getattr(self._library, name).restype = c_char_p
        self._library.jfa_device_close.argtypes = [_DEVICE]
        self._library.jfa_device_close.restype = None
        self.version = self._library.jfa_version().decode()

    def _check(self, result, function, arguments):
        if result != 0:
            raise Error(self._library.jfa_error_name(result).decode(),
                        self._library.jfa_last_error_message().decode(),
                        self._library.jfa_last_error_detail().decode())
        return result

    def open(self, name):
        """A device handle, for close()."""
        device = _DEVICE()
        self.jfa_device_open(name.encode(), device)
        return device

    def close(self, device):
        self._library.jfa_device_close(device)

    def target(self, device):
        return self._library.jfa_device_target(device).decode()

    def allocate(self, device, byte_count):
        address = c_uint64()
        self.jfa_allocate(device, byte_count, address)
        return address.value

    def workspace_bytes(self, call):
        byte_count = c_uint64()
        self.jfa_workspace_bytes(call, byte_count)
        return byte_count.value

    def backward_workspace_bytes(self, call, output_grad):
        byte_count = c_uint64()
        self.jfa_backward_workspace_bytes(call, output_grad, byte_count)
        return byte_count.value

    def supported_head_dims(self):
        count = c_size_t()
        self.jfa_supported_head_dims(None, 0, count)
        head_dims = (c_int64 * count.value)()
        self.jfa_supported_head_dims(head_dims, count.value, count)
        return list(head_dims)


def _dtype_of(array):
    names = {"torch.bfloat16": BF16, "torch.float16": FP16}
    return names[str(array.dtype)]


def tensor_of(array):
    """A Tensor over a PyTorch tensor [rows, heads, head_dim]."""
    rows, heads, head_dim = array.shape
    row_stride, head_stride, dim_stride = array.stride()
    if dim_stride != 1:
        raise ValueError(f"the innermost stride is {dim_stride}, not 1")
    return Tensor(array.data_ptr(), rows, heads, head_dim, row_stride, head_stride, _dtype_of(array))


def output_gradient_of(array):
    """An OutputGradient over a PyTorch tensor [rows, heads, head_dim] of any strides."""
    return OutputGradient(array.data_ptr(), *array.shape, *array.stride(), _dtype_of(array))


def offsets_of(array):
    """Offsets over a PyTorch tensor [batch + 1], or over a contiguous piece of a longer one."""
    if array.numel() > 1 and array.stride(0) != 1:
        raise ValueError(f"the offsets' stride is {array.stride(0)}, not 1")
    types = {"torch.int32": INT32, "torch.int64": INT64}
    return Offsets(array.data_ptr(), array.numel(), types[str(array.dtype)])
