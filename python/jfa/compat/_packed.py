"""Attention of query, key and value that are one tensor: its gradient is written in place, not put together."""

import torch

from .. import _attention, _torch, attention, errors, ops
from .._window import window_of


def _split(query, packed):
    return packed.unbind(1) if query is None else (query, *packed.unbind(1))


class _Packed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, packed, query_offset, key_offset, window, scale, return_lse):
        arguments = _torch.Arguments(*_split(query, packed), query_offset, key_offset, None, window, False, scale)
        output, lse = _torch.forward(arguments, True)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(query, packed, query_offset, key_offset, output, lse)
        ctx.options = None, window, False, scale, arguments.simulated
        return (output, lse) if return_lse else output

    @staticmethod
    def backward(ctx, output_grad, lse_grad=None):
        if torch.is_grad_enabled():
            raise errors.Unsupported(ops.SECOND_ORDER)
        if output_grad is None and lse_grad is None:
            return (None,) * 7
        query, packed, query_offset, key_offset, output, lse = ctx.saved_tensors
        arguments = _torch.Arguments(*_split(query, packed), query_offset, key_offset, *ctx.options)
        query_grad = None if query is None else torch.empty(query.shape, dtype=query.dtype, device=query.device)
        packed_grad = torch.empty(packed.shape, dtype=packed.dtype, device=packed.device)
        _torch.backward(arguments, output, lse, output_grad, lse_grad, _split(query_grad, packed_grad))
        return query_grad, packed_grad, None, None, None, None, None


def packed_attention(query, packed, query_offset, key_offset, window, scale, return_lse):
    """attention() of packed [rows, 3, heads, head_dim], or of a query and packed [rows, 2, heads, head_dim].

    window: its arguments window and alignment.
    """
    name, parts = ("qkv", 3) if query is None else ("kv", 2)
    if not isinstance(packed, torch.Tensor) or packed.dim() != 4 or packed.shape[1] != parts:
        shape = list(packed.shape) if isinstance(packed, torch.Tensor) else type(packed).__name__
        raise errors.invalid(f"{name}.shape", shape, f"[rows, {parts}, heads, head_dim] is wanted")
    plain = type(packed) is torch.Tensor and (query is None or type(query) is torch.Tensor)
    needs_grad = torch.is_grad_enabled() and (packed.requires_grad or (query is not None and query.requires_grad))
    if (torch.compiler.is_compiling() or not plain or not needs_grad or _attention.watched() or
            packed.dtype not in _torch.DTYPES):
        return attention(*_split(query, packed), query_offset, key_offset, **window, scale=scale,
                         return_lse=return_lse)
    return _Packed.apply(query, packed, query_offset, key_offset, window_of(**window), scale, return_lse)
