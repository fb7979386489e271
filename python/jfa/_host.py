"""Calls whose tensors lie in host memory: copied to a device, computed there, and copied back.

Strides, the alignment of addresses and what shares memory are kept, so that what a GPU would refuse is refused here,
too.
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
    def end(self):
        """The address behind the last element."""
        if 0 in self.shape:
            return self.address
        return self.address + (1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides))) * self.item_bytes


class _Region:
    """Host memory, and the device memory that stands for it."""

    def __init__(self, begin, end):
        self.begin, self.end, self.address = begin, end, 0

    @property
    def bytes(self):
        return self.end - self.begin


def _regions(arrays):
    """The regions that the arrays cover; arrays that interleave, views into one buffer, share one."""
    regions = []
    for begin, end in sorted((array.address, array.end) for array in arrays if array.end > array.address):
        if regions and begin < regions[-1].end:
            regions[-1].end = max(regions[-1].end, end)
        else:
            regions.append(_Region(begin, end))
    return regions


class _Mirror:
    """Host arrays and what stands for them on a device, for the length of a `with`."""

    def __init__(self, device, arrays):
        self.library = _library.library()
        self.device = device
        self._regions = _regions(array for array in arrays if array is not None)
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:  # gives back what it has if there is not enough
            self._stack = stack
            for region in self._regions:
                shift = region.begin % _ALIGNMENT
                region.address = self.allocate(region.bytes + shift) + shift
                self.library.jfa_upload(self.device, region.address, region.begin, region.bytes)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        return self._stack.__exit__(*error)

    def allocate(self, byte_count):
        address = self.library.allocate(self.device, byte_count)
        self._stack.callback(self.library.jfa_free, self.device, address)
        return address

    def address(self, array):
        """The device address that stands for the array's; 0 for None and for an array without elements."""
        if array is None or array.end == array.address:
            return 0
        region = next(r for r in self._regions if r.begin <= array.address < r.end)
        return region.address + array.address - region.begin

    def tensor(self, array):
        return self.address(array), *array.shape, *array.strides[:2], array.dtype, 0

    def offsets(self, array):
        return None if array is None else (self.address(array), array.shape[0], array.dtype, 0)

    def call(self, query, key, value, query_offset, key_offset, output_offset, window, broadcast_q, scale):
        return pack_call(self.tensor(query), self.tensor(key), self.tensor(value),
                         self.offsets(query_offset) or NO_OFFSETS, self.offsets(key_offset),
                         self.offsets(output_offset), window, broadcast_q, scale)

    def run(self, byte_count, launch, results):
        """launch(workspace), what it found wrong, and the results back into host memory."""
        workspace = pack_workspace(self.allocate(byte_count + _ALIGNMENT), byte_count)
        launch(workspace)
        self.library.jfa_status(self.device, workspace, None)
        for region in self._regions:
            if any(array is not None and region.begin <= array.address < region.end for array in results):
                self.library.jfa_download(self.device, region.begin, region.address, region.bytes)


def forward(device, call, output, lse):
    """jfa_forward. call: the arguments of _Mirror.call(); lse: a HostArray or None."""
    with _Mirror(device, (*call[:6], output, lse)) as mirror:
        packed = mirror.call(*call)
        result = pack_tensor(*mirror.tensor(output))
        mirror.run(mirror.library.workspace_bytes(packed), lambda workspace: mirror.library.jfa_forward(
            device, packed, result, mirror.address(lse), workspace, None), (output, lse))


def backward(device, call, output, lse, output_grad, lse_grad, gradients):
    """jfa_backward. output_grad: any strides; lse_grad: a HostArray or None; gradients: of query, key and value."""
    with _Mirror(device, (*call[:6], output, lse, output_grad, lse_grad, *gradients)) as mirror:
        packed = mirror.call(*call)
        result = pack_tensor(*mirror.tensor(output))
        incoming = pack_output_gradient(mirror.address(output_grad), *output_grad.shape, *output_grad.strides,
                                        output_grad.dtype, 0)
        outgoing = [pack_tensor(*mirror.tensor(gradient)) for gradient in gradients]
        mirror.run(mirror.library.backward_workspace_bytes(packed, incoming),
                   lambda workspace: mirror.library.jfa_backward(
                       device, packed, result, mirror.address(lse), incoming, mirror.address(lse_grad), *outgoing,
                       workspace, None), gradients)
