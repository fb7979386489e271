"""Tensors of PyTorch into the library. What a call costs the host is spent here, so this file counts microseconds.

Memory comes from PyTorch's allocator and is used on the current stream only, so nothing has to be recorded for another.
The library makes a device's context current by itself and restores what was, which is the device guard.
"""

import torch

from . import _host, _library, _simulate, errors
from ._structures import (BF16, FP16, INT32, INT64, NO_OFFSETS, pack_call, pack_output_gradient, pack_tensor,
                          pack_workspace)

DTYPES = {torch.bfloat16: BF16, torch.float16: FP16}
_OFFSET_TYPES = {torch.int32: INT32, torch.int64: INT64}
_cuda_devices = {}  # by torch.device


def _raw_stream(index):
    return torch.cuda.current_stream(index).cuda_stream


_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", _raw_stream)


def _cuda_device(device):
    handle = _cuda_devices.get(device)
    if handle is None:
        if device.type != "cuda":
            raise errors.invalid("query.device", device, "a GPU of CUDA's is wanted, or a simulated one")
        handle = _cuda_devices[device] = _library.device(str(device))
    return handle


def check_tensors(query, key, value):
    """Raises for what can be seen without looking at sizes; shape-only functions do so, too."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, torch.Tensor):
            raise errors.invalid(name, type(tensor).__name__, "a torch.Tensor [rows, heads, head_dim] is wanted")
        if tensor.dim() != 3:
            raise errors.invalid(f"{name}.shape", list(tensor.shape),
                                 "[rows, heads, head_dim] is wanted, sequences packed behind one another")
        if tensor.dtype not in DTYPES:
            raise errors.invalid(f"{name}.dtype", tensor.dtype,
                                 "torch.bfloat16 or torch.float16 is wanted: cast it, or use torch.autocast")
        if tensor.dtype != query.dtype:
            raise errors.invalid(f"{name}.dtype", tensor.dtype, f"it must be the query's, {query.dtype}")
        if tensor.device != query.device:
            raise errors.invalid(f"{name}.device", tensor.device, f"it must be the query's, {query.device}")


def check_offsets(name, offset, device):
    if not isinstance(offset, torch.Tensor):
        raise errors.invalid(name, type(offset).__name__,
                             "a torch.Tensor [batch + 1] of int32 or int64 is wanted, from 0 to the tensor's rows; "
                             "jfa.offsets_of(lengths) makes it from lengths")
    if offset.dtype not in _OFFSET_TYPES:
        raise errors.invalid(f"{name}.dtype", offset.dtype, "torch.int32 or torch.int64 is wanted")
    if offset.dim() != 1 or offset.shape[0] == 0:
        raise errors.invalid(f"{name}.shape", list(offset.shape), "[batch + 1] is wanted")
    if offset.device != device:
        raise errors.invalid(f"{name}.device", offset.device,
                             f"it must be the query's, {device}: offsets are read on the device")


def check_all_offsets(query_offset, key_offset, output_offset, broadcast_q, device):
    if not broadcast_q:
        check_offsets("query_offset", query_offset, device)
    check_offsets("key_offset", key_offset, device)
    if output_offset is not None:
        check_offsets("output_offset", output_offset, device)


def output_rows(query, key_offset, broadcast_q):
    return query.shape[0] * (key_offset.shape[0] - 1) if broadcast_q else query.shape[0]


def _placed(tensor, dtype):
    """The tensor, or one packed copy if the library cannot read it as it lies, and its fields of a jfa_tensor."""
    address = tensor.data_ptr()
    rows, heads, head_dim = tensor.shape
    row_stride, head_stride, dim_stride = tensor.stride()
    if (address & 15 or dim_stride != 1 or (row_stride | head_stride) & 7) and not _readable(tensor):
        tensor = tensor.clone(memory_format=torch.contiguous_format)
        address, row_stride, head_stride = tensor.data_ptr(), heads * head_dim, head_dim
    return tensor, (address, rows, heads, head_dim, row_stride, head_stride, dtype, 0)


def _readable(tensor):
    """Whether the library can read the tensor as it lies; strides of extents of 1 do not count."""
    *outer, innermost = [stride if extent > 1 else None for stride, extent in zip(tensor.stride(), tensor.shape)]
    return (tensor.data_ptr() % 16 == 0 and innermost in (1, None) and
            all(stride is None or stride % 8 == 0 for stride in outer))


def _fields(tensor, dtype):
    """The fields of a jfa_tensor, of a tensor that the library can read."""
    rows, heads, head_dim = tensor.shape
    row_stride, head_stride, _ = tensor.stride()
    return tensor.data_ptr(), rows, heads, head_dim, row_stride, head_stride, dtype, 0


def _placed_offset(name, offset, device):
    """The offsets, packed, and their fields of a jfa_offsets."""
    check_offsets(name, offset, device)
    offset = offset.contiguous()
    return offset, (offset.data_ptr(), offset.shape[0], _OFFSET_TYPES[offset.dtype], 0)


def _host_array(tensor, dtype=0):
    return _host.HostArray(tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.element_size(), dtype)


def _host_offsets(offset):
    return None if offset is None else _host_array(offset, _OFFSET_TYPES[offset.dtype])


class Arguments:
    """The arguments that forward and backward share: checked, copied where the library needs it.

    simulated: the name of the device that serves CPU tensors, or None for the one in use.
    """

    __slots__ = ("query", "key", "value", "query_offset", "key_offset", "output_offset", "window", "broadcast_q",
                 "scale", "dtype", "device", "index", "simulated", "fields")

    def __init__(self, query, key, value, query_offset, key_offset, output_offset, window, broadcast_q, scale,
                 simulated=None):
        index = query.get_device()
        dtype = DTYPES.get(query.dtype)
        if (index < 0 or dtype is None or key.dtype is not query.dtype or value.dtype is not query.dtype or
                key.get_device() != index or value.get_device() != index or query.dim() != 3 or key.dim() != 3 or
                value.dim() != 3):
            check_tensors(query, key, value)
        self.device = device = query.device
        self.query, query_fields = _placed(query, dtype)
        self.key, key_fields = _placed(key, dtype)
        self.value, value_fields = _placed(value, dtype)
        self.query_offset, query_offset_fields = ((None, NO_OFFSETS) if broadcast_q else
                                                  _placed_offset("query_offset", query_offset, device))
        self.key_offset, key_offset_fields = _placed_offset("key_offset", key_offset, device)
        self.output_offset, output_offset_fields = ((None, None) if output_offset is None else
                                                    _placed_offset("output_offset", output_offset, device))
        self.fields = (query_fields, key_fields, value_fields, query_offset_fields, key_offset_fields,
                       output_offset_fields)
        self.window, self.broadcast_q, self.scale = window, broadcast_q, scale
        self.dtype, self.index = dtype, index
        if index < 0:
            if device.type != "cpu":
                raise errors.invalid("query.device", device, "a GPU is wanted, or a simulated one")
            self.simulated = simulated or _simulate.required("query")
        else:
            self.simulated = None

    def packed(self):
        """The jfa_call."""
        return pack_call(*self.fields, self.window, self.broadcast_q, self.scale)

    def on_host(self):
        """What _host wants."""
        dtype = self.dtype
        return (_host_array(self.query, dtype), _host_array(self.key, dtype), _host_array(self.value, dtype),
                _host_offsets(self.query_offset), _host_offsets(self.key_offset), _host_offsets(self.output_offset),
                self.window, self.broadcast_q, self.scale)


def _empty_like(tensor):
    """A contiguous tensor of the same shape, for less than torch.empty()."""
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _workspace(byte_count, device):
    memory = torch.empty(byte_count, dtype=torch.uint8, device=device)
    return memory, pack_workspace(memory.data_ptr(), byte_count)


def forward(arguments, want_lse):
    """(output, lse or None)."""
    query, device = arguments.query, arguments.device
    rows = output_rows(query, arguments.key_offset, arguments.broadcast_q)
    _, heads, head_dim = query.shape
    output = query.new_empty(rows, heads, head_dim)  # sizes one by one: a tuple of them takes 0.8 µs more
    lse = query.new_empty(heads, rows, dtype=torch.float32) if want_lse else None
    if arguments.index < 0:
        _host.forward(_library.device(arguments.simulated), arguments.on_host(), _host_array(output, arguments.dtype),
                      None if lse is None else _host_array(lse))
        return output, lse
    library = _library.library()
    call = arguments.packed()
    memory, workspace = _workspace(library.workspace_bytes(call), device)
    packed_output = pack_tensor(output.data_ptr(), rows, heads, head_dim, heads * head_dim, head_dim, arguments.dtype,
                                0)
    library.jfa_forward(_cuda_device(device), call, packed_output,
                        0 if lse is None else lse.data_ptr(), workspace, _current_stream(arguments.index))
    return output, lse


def backward(arguments, output, lse, output_grad, lse_grad, gradients=None):
    """(query_grad, key_grad, value_grad), into `gradients` if given. One of output_grad and lse_grad may be None."""
    if output_grad is None:
        output_grad = output.new_zeros(()).expand(output.shape)
    if lse_grad is not None:
        lse_grad = lse_grad.contiguous()
    dtype = arguments.dtype
    if gradients is None:
        gradients = [_empty_like(tensor) for tensor in (arguments.query, arguments.key, arguments.value)]
    if arguments.index < 0:
        _host.backward(_library.device(arguments.simulated), arguments.on_host(), _host_array(output, dtype),
                       _host_array(lse), _host_array(output_grad, dtype),
                       None if lse_grad is None else _host_array(lse_grad),
                       [_host_array(gradient, dtype) for gradient in gradients])
        return gradients
    library = _library.library()
    call = arguments.packed()
    incoming = pack_output_gradient(output_grad.data_ptr(), *output_grad.shape, *output_grad.stride(), dtype, 0)
    memory, workspace = _workspace(library.backward_workspace_bytes(call, incoming), output.device)
    library.jfa_backward(_cuda_device(arguments.device), call, pack_tensor(*_fields(output, dtype)), lse.data_ptr(),
                         incoming, 0 if lse_grad is None else lse_grad.data_ptr(),
                         *[pack_tensor(*_fields(gradient, dtype)) for gradient in gradients], workspace,
                         _current_stream(arguments.index))
    return gradients


def synchronize(index):
    _library.library().jfa_synchronize(_cuda_device(torch.device("cuda", index)), _current_stream(index))
