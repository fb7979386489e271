"""Calls whose tensors lie in host memory: copied to a device, computed there, and copied back.

Strides and the alignment of addresses are kept, so that what a GPU would refuse is refused here too.
"""

import contextlib
import typing

from . import _library
from ._structures import NO_OFFSETS, pack_call, pack_output_gradient, pack_tensor, pack_workspace

_ALIGNMENT = 256


class HostArray(typing.NamedTuple):
    """A strided array in host memory. strides: in elements, none negative; dtype: a code of _structures."""

    address: int
    shape: tuple
    strides: tuple
    item_bytes: int
    dtype: int

    @property
    def span_bytes(self):
        """Bytes from the first element to behind the last one."""
        if 0 in self.shape:
            return 0
        return (1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides))) * self.item_bytes


class _Mirror:
    """Host arrays and what stands for them on a device, for the length of a `with`."""

    def __init__(self, device):
        self.library = _library.library()
        self.device = device
        self._stack = contextlib.ExitStack()
        self._results = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return self._stack.__exit__(*error)

    def allocate(self, byte_count):
        address = self.library.allocate(self.device, byte_count)
        self._stack.callback(self.library.jfa_free, self.device, address)
        return address

    def place(self, array, copy_in=True):
        """The device address that stands for the array's."""
        shift = array.address % _ALIGNMENT if array.span_bytes else 0
        address = self.allocate(array.span_bytes + _ALIGNMENT) + shift
        if copy_in and array.span_bytes:
            self.library.jfa_upload(self.device, address, array.address, array.span_bytes)
        return address

    def result(self, array):
        """place() for what the call writes. Memory is copied in as well: a call may leave rows as they are."""
        address = self.place(array)
        if array.span_bytes:
            self._results.append((array, address))
        return address

    def tensor(self, array, result=False):
        address = self.result(array) if result else self.place(array)
        rows, heads, head_dim = array.shape
        return address, rows, heads, head_dim, array.strides[0], array.strides[1], array.dtype, 0

    def offsets(self, array):
        return None if array is None else (self.place(array), array.shape[0], array.dtype, 0)

    def run(self, byte_count, launch):
        """launch(workspace), what it found wrong, and the results back into host memory."""
        workspace = pack_workspace(self.allocate(byte_count + _ALIGNMENT), byte_count)
        launch(workspace)
        self.library.jfa_status(self.device, workspace, None)
        for array, address in self._results:
            self.library.jfa_download(self.device, array.address, address, array.span_bytes)

    def call(self, query, key, value, query_offset, key_offset, output_offset, window, broadcast_q, scale):
        return pack_call(self.tensor(query), self.tensor(key), self.tensor(value),
                         self.offsets(query_offset) or NO_OFFSETS, self.offsets(key_offset),
                         self.offsets(output_offset), window, broadcast_q, scale)


def forward(device, call, output, lse):
    """jfa_forward. call: the arguments of _Mirror.call(); lse: a HostArray or None."""
    with _Mirror(device) as mirror:
        packed = mirror.call(*call)
        result = pack_tensor(*mirror.tensor(output, result=True))
        lse_address = mirror.result(lse) if lse else 0
        mirror.run(mirror.library.workspace_bytes(packed),
                   lambda workspace: mirror.library.jfa_forward(device, packed, result, lse_address, workspace, None))


def backward(device, call, output, lse, output_grad, lse_grad, gradients):
    """jfa_backward. output_grad: any strides; lse_grad: a HostArray or None; gradients: of query, key and value."""
    with _Mirror(device) as mirror:
        packed = mirror.call(*call)
        output_tensor = pack_tensor(*mirror.tensor(output))
        lse_address = mirror.place(lse)
        incoming = pack_output_gradient(mirror.place(output_grad), *output_grad.shape, *output_grad.strides,
                                        output_grad.dtype, 0)
        lse_grad_address = mirror.place(lse_grad) if lse_grad else 0
        outgoing = [pack_tensor(*mirror.tensor(gradient, result=True)) for gradient in gradients]
        mirror.run(mirror.library.backward_workspace_bytes(packed, incoming),
                   lambda workspace: mirror.library.jfa_backward(
                       device, packed, output_tensor, lse_address, incoming, lse_grad_address, *outgoing, workspace,
                       None))

