"""The operators as torch.func wants them: it does not go through the autograd of an operator."""

import torch

from . import errors, ops


class _Backward(torch.autograd.Function):
    @staticmethod
    def forward(*arguments):
        return torch.ops.jfa.attention_backward(*arguments)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *_):
        raise errors.Unsupported(ops.SECOND_ORDER)

    @staticmethod
    def vmap(info, in_dims, *_):
        raise errors.Unsupported(ops.VMAP)


class Attention(torch.autograd.Function):
    """torch.ops.jfa.attention under torch.func.grad and the like."""

    setup_context = staticmethod(ops.setup_context)
    vmap = _Backward.vmap

    @staticmethod
    def jvp(ctx, *_):
        raise errors.Unsupported(ops.FORWARD_MODE)

    @staticmethod
    def forward(*arguments):
        return torch.ops.jfa.attention(*arguments)

    @staticmethod
    def backward(ctx, output_grad, lse_grad):
        return *_Backward.apply(output_grad, lse_grad, *ctx.saved_tensors, *ctx.options), *(None,) * 6
