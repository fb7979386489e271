"""jfa.compat: the signatures of flash_attn, flash_attn_interface and PyTorch's varlen_attn."""

import inspect

import pytest
import torch

import jfa
from jfa.compat import flash_attn, flash_attn_interface
from jfa.compat.torch import varlen_attn
from problems import Problem

SELF = dict(query_lengths=[9, 3], key_lengths=[9, 3])
CROSS = dict(query_lengths=[3, 4], key_lengths=[7, 2])
FUNCTIONS = [flash_attn.flash_attn_varlen_func, flash_attn_interface.flash_attn_varlen_func, varlen_attn]
BEFORE_OPTIONS = 7  # tensors, offsets, maximum lengths


@pytest.mark.parametrize("function", FUNCTIONS)
def test_like_attention(function, device):
    problem = Problem(**CROSS, device=device)
    output = function(*problem.arguments, 4, 7)
    wanted = problem.run()
    assert torch.equal(output, wanted)
    assert all(torch.equal(*pair) for pair in zip(problem.gradients(output), problem.gradients(wanted)))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_windows(function, device):
    problem = Problem(**SELF, device=device)
    offset = problem.query_offset
    output = function(*problem.inputs, offset, offset, 9, 9, window_size=(1, 1))
    assert torch.equal(output, problem.run(window=1))
    output = function(*problem.inputs, offset, offset, 9, 9, window_size=(-1, 0))
    assert torch.equal(output, problem.run(causal=True))
    problem = Problem(**CROSS, device=device)
    for window_size, window in (((2, 0), (2, 0)), ((1, -1), (1, None))):
        output = function(*problem.arguments, 4, 7, window_size=window_size)
        assert torch.equal(output, problem.run(window=window, alignment="bottom_right"))
    if "causal" in inspect.signature(function).parameters:
        output = function(*problem.arguments, 4, 7, causal=True, window_size=(2, 2))
        assert torch.equal(output, problem.run(window=(2, 0), alignment="bottom_right"))
    with pytest.raises(jfa.InvalidArgument, match="window_size is None"):
        function(*problem.inputs, offset, offset, 9, 9, window_size=None)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_in_a_compiled_graph(function, device):
    """Also with offsets of their own for the keys, and with a window."""
    torch._dynamo.reset()
    problem = Problem(**CROSS, device=device)
    compiled = torch.compile(lambda *call: function(*call, 4, 7), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*problem.arguments), problem.run())
    compiled = torch.compile(lambda *call: function(*call, 4, 7, window_size=(-1, 0)), fullgraph=True,
                             backend="aot_eager")
    assert torch.equal(compiled(*problem.arguments), problem.run(causal=True, alignment="bottom_right"))
    problem = Problem(**SELF, device=device)
    compiled = torch.compile(lambda q, k, v, offset: function(q, k, v, offset, offset, 9, 9, window_size=(1, 1)),
                             fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*problem.inputs, problem.query_offset), problem.run(window=1))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_offsets_that_are_no_tensors(function, device):
    problem = Problem(**CROSS, device=device)
    with pytest.raises(jfa.InvalidArgument, match="query_offset is list"):
        function(*problem.inputs, [0, 3, 7], [0, 7, 9], 4, 7)


def test_lse(device):
    problem = Problem(**CROSS, device=device)
    wanted = problem.run(return_lse=True)
    second = flash_attn.flash_attn_varlen_func(*problem.arguments, 4, 7, return_attn_probs=True)
    assert second[2] is None
    third = flash_attn_interface.flash_attn_varlen_func(*problem.arguments, 4, 7, return_attn_probs=True)
    request = type("AuxRequest", (), {"lse": True})()
    aux = varlen_attn(*problem.arguments, 4, 7, return_aux=request)
    for found in (second[:2], third, aux):
        assert all(torch.equal(*pair) for pair in zip(found, wanted))


def test_packed_causal(device):
    problem = Problem(**SELF, device=device)
    qkv = torch.stack([tensor.detach() for tensor in problem.inputs], 1).requires_grad_()
    output = flash_attn.flash_attn_varlen_qkvpacked_func(qkv, problem.query_offset, 9, causal=True)
    wanted = problem.run(causal=True)
    assert torch.equal(output, wanted)
    output.backward(problem.output_grad)
    assert torch.equal(qkv.grad, torch.stack(problem.gradients(wanted), 1))


@pytest.mark.parametrize("needs", ["both", "one"])
def test_packed(needs, device):
    """Results and gradients of packed tensors are those of their parts."""
    problem = Problem(**SELF, device=device)
    offset, parts = problem.query_offset, [tensor.detach() for tensor in problem.inputs]
    qkv = torch.stack(parts, 1).requires_grad_()
    output = flash_attn.flash_attn_varlen_qkvpacked_func(qkv, offset, 9)
    wanted = problem.run()
    gradients = torch.stack(problem.gradients(wanted), 1)
    assert torch.equal(output, wanted)
    output.backward(problem.output_grad)
    assert torch.equal(qkv.grad, gradients)

    query, kv = parts[0].clone().requires_grad_(needs == "both"), torch.stack(parts[1:], 1).requires_grad_()
    output, lse, _ = flash_attn.flash_attn_varlen_kvpacked_func(query, kv, offset, offset, 9, 9, return_attn_probs=True)
    output.backward(problem.output_grad)
    assert torch.equal(kv.grad, gradients[:, 1:]) and torch.equal(lse, problem.run(return_lse=True)[1])
    assert needs == "one" or torch.equal(query.grad, gradients[:, 0])
    with torch.no_grad():
        assert torch.equal(flash_attn.flash_attn_varlen_qkvpacked_func(qkv, offset, 9), wanted)
    with pytest.raises(jfa.Unsupported, match="second derivative"):
        output = flash_attn.flash_attn_varlen_qkvpacked_func(qkv, offset, 9)
        torch.autograd.grad(output.float().square().sum(), qkv, create_graph=True)
    with pytest.raises(jfa.InvalidArgument, match="qkv.shape is"):
        flash_attn.flash_attn_varlen_qkvpacked_func(kv, offset, 9)


REFUSED = [
    *[(function, option, value) for function in (flash_attn.flash_attn_varlen_func,) for option, value in (
        ("dropout_p", 0.1), ("softcap", 30.0), ("alibi_slopes", torch.ones(2)),
        ("block_table", torch.zeros(2, 2)))],
    *[(flash_attn_interface.flash_attn_varlen_func, option, value) for option, value in (
        ("softcap", 15.0), ("qv", torch.zeros(1, 2, 3)), ("seqused_q", torch.ones(2)),
        ("seqused_k", torch.ones(2)), ("q_descale", torch.ones(2)), ("k_descale", torch.ones(2)),
        ("v_descale", torch.ones(2)), ("attention_chunk", 3))],
    *[(varlen_attn, option, value) for option, value in (
        ("seqused_k", torch.ones(2)), ("block_table", torch.zeros(2, 2)))],
]


@pytest.mark.parametrize("function, option, value", REFUSED)
def test_refused_by_name_and_value(function, option, value, device):
    problem = Problem(**CROSS, device=device)
    shown = f"a tensor {list(value.shape)}" if isinstance(value, torch.Tensor) else str(value)
    with pytest.raises(jfa.Unsupported) as caught:
        function(*problem.arguments, 4, 7, **{option: value})
    assert (caught.value.argument, caught.value.value) == (option, shown)


def test_groups_have_to_be_asked_for_in_varlen_attn(device):
    problem = Problem(**CROSS, heads=4, key_heads=2, device=device)
    assert torch.equal(varlen_attn(*problem.arguments, 4, 7, enable_gqa=True), problem.run())
    with pytest.raises(jfa.InvalidArgument, match="enable_gqa is False"):
        varlen_attn(*problem.arguments, 4, 7)


def test_every_option_is_covered():
    """No option of a signature is dropped without a word: it is passed on, refused, or said to change no result."""
    ignored = {"max_seqlen_q", "max_seqlen_k", "max_q", "max_k", "deterministic", "num_splits", "pack_gqa", "sm_margin"}
    passed_on = {"softmax_scale", "scale", "window_size", "causal", "return_attn_probs", "return_aux", "enable_gqa"}
    for function in FUNCTIONS:
        options = list(inspect.signature(function).parameters)[BEFORE_OPTIONS - 2:]
        refused = {option for f, option, _ in REFUSED if f is function}
        assert set(options) <= ignored | passed_on | refused, function


def test_signature_of_varlen_attn():
    """That of the PyTorch at hand, or a later one's: every parameter it has is here, in its place, with its default."""
    try:
        from torch.nn.attention.varlen import varlen_attn as original
    except ImportError:
        pytest.fail(f"PyTorch {torch.__version__} has no varlen_attn")
    ours = inspect.signature(varlen_attn).parameters
    for name, theirs in inspect.signature(original).parameters.items():
        assert name in ours, name
        assert (ours[name].default, ours[name].kind) == (theirs.default, theirs.kind), name


def test_signatures_of_flash_attn():
    """Names, order and defaults of flash-attn 2.8 and of FlashAttention-3's interface."""
    packed = ["dropout_p", "softmax_scale", "causal", "window_size", "softcap", "alibi_slopes", "deterministic",
              "return_attn_probs"]
    both = ["cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k"]
    names = {
        flash_attn.flash_attn_varlen_func: ["q", "k", "v", *both, *packed, "block_table"],
        flash_attn.flash_attn_varlen_qkvpacked_func: ["qkv", "cu_seqlens", "max_seqlen", *packed],
        flash_attn.flash_attn_varlen_kvpacked_func: ["q", "kv", *both, *packed],
        flash_attn_interface.flash_attn_varlen_func: [
            "q", "k", "v", *both, "seqused_q", "seqused_k", "softmax_scale", "causal", "qv", "q_descale", "k_descale",
            "v_descale", "window_size", "attention_chunk", "softcap", "num_splits", "pack_gqa", "deterministic",
            "sm_margin", "return_attn_probs"]}
    for function, wanted in names.items():
        assert list(inspect.signature(function).parameters) == wanted, function
