"""The operators torch.ops.jfa.attention and torch.ops.jfa.attention_backward.

What torch.compile, torch.export, dispatch modes and torch.func see. Their window is None, W, [W] or
[left, right, at_ends], with -1 for an open side and at_ends 1 for bottom_right. jfa.attention() calls them where one of those is at
work and the library directly where none is.
"""

import torch

from . import _flops, _torch, errors
from ._window import from_list

_library = torch.library.Library("jfa", "DEF")
_ARGUMENTS = ("Tensor query, Tensor key, Tensor value, Tensor? query_offset, Tensor key_offset, "
              "Tensor? output_offset=None, int[1]? window=None, bool broadcast_q=False, float? scale=None")
_library.define(f"attention({_ARGUMENTS}) -> (Tensor output, Tensor lse)", tags=(torch.Tag.pt2_compliant_tag,))
_library.define(
    "attention_backward(Tensor? output_grad, Tensor? lse_grad, Tensor output, Tensor lse, "
    f"{_ARGUMENTS}) -> (Tensor query_grad, Tensor key_grad, Tensor value_grad)",
    tags=(torch.Tag.pt2_compliant_tag,))

SECOND_ORDER = ("jfa.attention has no second derivative: its backward was recorded (create_graph=True) and is now to "
                "be differentiated")
FORWARD_MODE = "jfa.attention has no forward-mode derivative (torch.func.jvp, torch.autograd.forward_ad)"
VMAP = ("jfa.attention does not run under torch.vmap: pack what vmap would batch behind one another and give offsets, "
        "which is what a jagged batch is")


def _attention(query, key, value, query_offset, key_offset, output_offset=None, window=None, broadcast_q=False,
               scale=None):
    return _torch.forward(_torch.Arguments(query, key, value, query_offset, key_offset, output_offset,
                                           from_list(window), broadcast_q, scale), True)


def _attention_backward(output_grad, lse_grad, output, lse, query, key, value, query_offset, key_offset,
                        output_offset=None, window=None, broadcast_q=False, scale=None):
    arguments = _torch.Arguments(query, key, value, query_offset, key_offset, output_offset, from_list(window),
                                 broadcast_q, scale)
    return tuple(_torch.backward(arguments, output, lse, output_grad, lse_grad))


for _key in ("CUDA", "CPU"):
    _library.impl("attention", _attention, _key)
    _library.impl("attention_backward", _attention_backward, _key)


@torch.library.register_fake("jfa::attention", lib=_library)
def _(query, key, value, query_offset, key_offset, output_offset=None, window=None, broadcast_q=False, scale=None):
    _torch.check_tensors(query, key, value)
    _torch.check_all_offsets(query_offset, key_offset, output_offset, broadcast_q, query.device)
    rows = _torch.output_rows(query, key_offset, broadcast_q)
    _, heads, head_dim = query.shape
    return query.new_empty((rows, heads, head_dim)), query.new_empty((heads, rows), dtype=torch.float32)


@torch.library.register_fake("jfa::attention_backward", lib=_library)
def _(output_grad, lse_grad, output, lse, query, key, value, query_offset, key_offset, output_offset=None, window=None,
      broadcast_q=False, scale=None):
    return tuple(tensor.new_empty(tensor.shape) for tensor in (query, key, value))


def setup_context(ctx, inputs, output):
    query, key, value, query_offset, key_offset, output_offset, *ctx.options = inputs
    ctx.save_for_backward(*output, query, key, value, query_offset, key_offset, output_offset)
    ctx.set_materialize_grads(False)


def _backward(ctx, output_grad, lse_grad):
    if output_grad is None and lse_grad is None:
        return (None,) * 9
    return *torch.ops.jfa.attention_backward(output_grad, lse_grad, *ctx.saved_tensors, *ctx.options), *(None,) * 6


def _no_second_order(ctx, *_):
    raise errors.Unsupported(SECOND_ORDER)


torch.library.register_autograd("jfa::attention", _backward, setup_context=setup_context, lib=_library)
torch.library.register_autograd("jfa::attention_backward", _no_second_order, lib=_library)


def _no_vmap(info, in_dims, *_):
    raise errors.Unsupported(VMAP)


torch.library.register_vmap("jfa::attention", _no_vmap, lib=_library)
torch.library.register_vmap("jfa::attention_backward", _no_vmap, lib=_library)
_flops.register()
