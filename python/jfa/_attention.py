"""jfa.attention(), with autograd."""

import torch
from torch.autograd import forward_ad

from . import _functional, _jagged, _torch, errors, ops
from ._window import to_list, window_of

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
_RELATED = {  # what users of other attentions may write, and what to write here
    "is_causal": "it is called causal",
    "window_size": "it is called window, with None for an open side, and alignment says what it counts from",
    "attn_mask": "there is no mask but window", "dropout_p": "there is no dropout", "softcap": "there is no softcap",
    "alibi_slopes": "there is no bias", "block_table": "there are no paged keys",
    "enable_gqa": "grouped heads are recognised by the tensors' shapes",
    "sm_scale": "it is called scale", "softmax_scale": "it is called scale",
    "max_seqlen_q": "maximum lengths are not needed", "max_seqlen_k": "maximum lengths are not needed",
}


class _Attention(torch.autograd.Function):
    """The library called directly, without PyTorch's dispatcher."""

    @staticmethod
    def forward(ctx, query, key, value, query_offset, key_offset, output_offset, window, broadcast_q, scale,
                return_lse):
        arguments = _torch.Arguments(query, key, value, query_offset, key_offset, output_offset, window, broadcast_q,
                                     scale)
        output, lse = _torch.forward(arguments, True)
        ctx.set_materialize_grads(False)
        # Not their packed copies: those are no part of the graph in which a second derivative has to be refused.
        ctx.save_for_backward(query, key, value, query_offset, key_offset, output_offset, output, lse)
        ctx.options = window, broadcast_q, scale, arguments.simulated
        return (output, lse) if return_lse else output

    @staticmethod
    def backward(ctx, output_grad, lse_grad=None):
        if output_grad is None and lse_grad is None:
            return (None,) * 10
        *inputs, output, lse = ctx.saved_tensors
        gradients = _torch.backward(_torch.Arguments(*inputs, *ctx.options), output, lse, output_grad, lse_grad)
        if torch.is_grad_enabled():  # create_graph=True
            gradients = _NoSecondOrder.apply(output_grad, lse_grad, *inputs[:3], *gradients)
        return *gradients, None, None, None, None, None, None, None


class _NoSecondOrder(torch.autograd.Function):
    """Hands gradients on, and refuses to be differentiated."""

    @staticmethod
    def forward(ctx, output_grad, lse_grad, query, key, value, query_grad, key_grad, value_grad):
        return query_grad.view_as(query_grad), key_grad.view_as(key_grad), value_grad.view_as(value_grad)

    @staticmethod
    def backward(ctx, *_):
        raise errors.Unsupported(ops.SECOND_ORDER)


def _checked_scale(scale):
    if isinstance(scale, torch.Tensor):
        raise errors.invalid("scale", scale,
                             "a number is wanted; no gradient flows to it. For a learned scale multiply the query")
    try:
        return float(scale)
    except (TypeError, ValueError):
        raise errors.invalid("scale", repr(scale), "a number is wanted, or None") from None


def _refuse(options):
    for name, value in options.items():
        if name not in _RELATED:
            raise TypeError(f"attention() got an unexpected keyword argument '{name}'")
        if value is not None and not (isinstance(value, (int, float)) and value == 0):
            raise errors.unsupported(name, value, _RELATED[name])


def _cast(query, key, value):
    """The tensors as torch.autocast would have them, where it is on and they are not of one 16-bit type."""
    dtype = query.dtype
    if key.dtype is dtype and value.dtype is dtype and dtype in _torch.DTYPES:
        return query, key, value
    kind = query.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return query, key, value
    dtype = torch.get_autocast_dtype(kind)
    return tuple(tensor.to(dtype) if tensor.is_floating_point() and tensor.dtype != torch.float64 else tensor
                 for tensor in (query, key, value))


def watched():
    """Whether something is at work that has to see an operator."""
    return (torch._C._len_torch_dispatch_stack() > 0 or torch._C._are_functorch_transforms_active() or
            torch._C._get_tracing_state() is not None or forward_ad._current_level >= 0)


def attention(query, key, value, query_offset=None, key_offset=None, *, output_offset=None, window=None, causal=False,
              alignment="top_left", broadcast_q=False, scale=None, return_lse=False, **refused):
    """softmax(scale · query · keyᵀ) · value, for every sequence of a packed batch; differentiable.

    Sequence b owns the query rows query_offset[b] … query_offset[b + 1] - 1 and the key and value rows
    key_offset[b] … key_offset[b + 1] - 1; its queries attend to its keys.

    query: [total_q, Hq, D]; key, value: [total_kv, Hkv, D]; torch.bfloat16 or torch.float16, on one GPU; D: a multiple
        of 8 up to 128; Hq: a multiple of Hkv. Row and head strides that are multiples of 8, in any order, also 0, with
        an innermost stride of 1 and a 16-byte aligned address are read as they lie; of anything else one packed copy is
        made, forward and again backward. Under torch.autocast, float32 tensors are cast. CPU tensors: inside
        `with jfa.simulate("sim:sm_100a"):`.
    query_offset, key_offset: [batch + 1], int32 or int64, on the same GPU; lengths are differences, and may be 0. They
        are never read on the host, so a captured CUDA graph may be replayed with other lengths. What is wrong with
        them is raised by the next call on the stream or by jfa.synchronize().
    output_offset: [batch + 1], where each sequence's output rows begin; default: where its query rows do.
    window: W keeps the pairs with |i - j| <= W, (left, right) those with -left <= j - i <= right; None in the place of
        either leaves that side open.
    causal: right is 0: query i sees no key behind i.
    alignment: "top_left": i and j count from the start of their sequence; "bottom_right": query i stands at key
        i + keys - queries, so that the last query stands at the last key. Not with broadcast_q.
    broadcast_q: query is one sequence [q_len, Hq, D] that reads every sequence's keys (pooling by multi-head
        attention); query_offset is ignored, and the output has batch * q_len rows.
    scale: any finite number; default 1 / sqrt(D).
    return_lse: also return the log-sum-exp of every row, float32 [Hq, output rows], natural logarithm; it has a
        gradient, too.

    Returns the output [output rows, Hq, D], contiguous, or (output, lse). A query row that sees no key gets output 0
    and LSE -inf, and gradient 0. Rows that no sequence owns are not written.

    query, key, value may instead be jagged nested tensors, [batch, j, H, D] or [batch, H, j, D], or TorchRec
    JaggedTensors with values [total, H, D]; then the offsets are theirs, and the output is what the query is. A dense
    query with broadcast_q goes with nested key and value.

    Errors name the argument and its value: jfa.InvalidArgument (a ValueError), jfa.Unsupported (a NotImplementedError),
    jfa.Unavailable, …; all are jfa.Error. Refused so far: second derivatives, forward mode, vmap.
    """
    if refused:
        _refuse(refused)
    if causal or window is not None or alignment != "top_left":
        window = window_of(window, causal, alignment)
    if scale is not None and type(scale) is not float:
        scale = _checked_scale(scale)
    options = query_offset, key_offset, output_offset, window, broadcast_q, scale
    if torch.compiler.is_compiling() or not (type(query) in _PLAIN and type(key) in _PLAIN and type(value) in _PLAIN):
        return _jagged.attention(_operator, query, key, value, *options, return_lse)
    if watched() or query.is_meta:
        return _operator(query, key, value, *options, return_lse)
    query, key, value = _cast(query, key, value)
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
        return _Attention.apply(query, key, value, *options, return_lse)
    output, lse = _torch.forward(_torch.Arguments(query, key, value, *options), return_lse)
    return (output, lse) if return_lse else output


def _operator(query, key, value, query_offset, key_offset, output_offset, window, broadcast_q, scale, return_lse):
    """attention() of tensors, through the operator."""
    query, key, value = _cast(query, key, value)
    # torch.compile traces torch.func by itself, so it sees the operator.
    transformed = not torch.compiler.is_compiling() and (torch._C._are_functorch_transforms_active() or
                                                         forward_ad._current_level >= 0)
    call = _functional.Attention.apply if transformed else torch.ops.jfa.attention
    output, lse = call(query, key, value, query_offset, key_offset, output_offset, to_list(window), broadcast_q, scale)
    return (output, lse) if return_lse else output


def synchronize(device=None):
    """Waits for the current stream and raises what is wrong with the offsets of calls on it; those computed nothing.

    device: a CUDA device; default: the current one.
    """
    index = torch.cuda.current_device() if device is None else torch.device(device).index
    if index is None:
        index = torch.cuda.current_device()
    _torch.synchronize(index)
