"""What PyTorch builds on operators: compilation, export, transforms, checkpointing, counting."""

import warnings

import pytest
import torch
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import jfa
from problems import Problem, check

CASE = dict(query_lengths=[3, 4, 1], key_lengths=[7, 0, 2])
OTHER = dict(query_lengths=[2, 0, 5, 6], key_lengths=[1, 9, 4, 2], seed=2)
SHARED = dict(query_lengths=[3], key_lengths=[7, 0, 2], broadcast_q=True)


@pytest.mark.parametrize("case", [CASE, SHARED], ids=["cross", "shared query"])
def test_opcheck(case, device):
    problem = Problem(**case, device=device)
    query_offset = None if problem.broadcast_q else problem.query_offset
    options = query_offset, problem.key_offset, None, None, problem.broadcast_q, None
    torch.library.opcheck(torch.ops.jfa.attention, (*problem.inputs, *options))
    inputs = [tensor.detach() for tensor in problem.inputs]
    output, lse = torch.ops.jfa.attention(*inputs, *options)
    torch.library.opcheck(torch.ops.jfa.attention_backward, (problem.output_grad, None, output, lse, *inputs, *options))


def test_the_operator_and_the_direct_call_agree(device):
    problem = Problem(**CASE, device=device)
    direct = problem.run(return_lse=True)
    operator = torch.ops.jfa.attention(*problem.arguments)
    assert all(torch.equal(*pair) for pair in zip(direct, operator))
    assert all(torch.equal(*pair) for pair in zip(problem.gradients(*direct), problem.gradients(*operator)))


def layer(query, key, value, query_offset, key_offset):
    output, lse = jfa.attention(query * 1.5, key, value, query_offset, key_offset, window=3, return_lse=True)
    return output * 2, lse


def test_compiled_whole_with_other_lengths_and_batches(device):
    """One graph without breaks, and no second compilation when totals and batch change."""
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    torch._dynamo.reset()
    counter = torch._dynamo.utils.counters
    counter.clear()
    for case in (CASE, OTHER):
        problem = Problem(**case, device=device)
        found, wanted = compiled(*problem.arguments), layer(*problem.arguments)
        assert all(torch.equal(*pair) for pair in zip(found, wanted))
        assert all(torch.equal(*pair) for pair in zip(problem.gradients(*found), problem.gradients(*wanted)))
    assert counter["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("layout", ["packed", "head-major", "fused"])
def test_shapes_and_strides_of_the_shape_only_function(layout, device):
    """bug-pool 131: what the compiler is told about a result is what the result is."""
    make = {"packed": lambda t: t, "head-major": lambda t: t.transpose(0, 1).contiguous().transpose(0, 1),
            "fused": lambda t: torch.stack([t, t], 1)[:, 1]}[layout]
    problem = Problem(**CASE, device=device)
    inputs = [make(tensor.detach()) for tensor in problem.inputs]
    arguments = *inputs, problem.query_offset, problem.key_offset
    real = torch.ops.jfa.attention(*arguments)
    shapes = torch.ops.jfa.attention(*[tensor.to("meta") for tensor in arguments])
    output_grad = make(problem.output_grad)
    real += torch.ops.jfa.attention_backward(output_grad, None, *real, *arguments)
    shapes += torch.ops.jfa.attention_backward(output_grad.to("meta"), None, *shapes,
                                               *[tensor.to("meta") for tensor in arguments])
    assert [(t.shape, t.stride(), t.dtype) for t in real] == [(t.shape, t.stride(), t.dtype) for t in shapes]


def test_export(device):
    class Module(torch.nn.Module):
        def forward(self, query, key, value, query_offset, key_offset):
            return jfa.attention(query, key, value, query_offset, key_offset)

    problem, other = Problem(**CASE, device=device), Problem(**OTHER, device=device)
    dimension = torch.export.Dim
    total_q, total_kv, offsets = dimension("total_q"), dimension("total_kv"), dimension("offsets")
    program = torch.export.export(Module(), problem.arguments, dynamic_shapes=(
        {0: total_q}, {0: total_kv}, {0: total_kv}, {0: offsets}, {0: offsets}))
    assert torch.ops.jfa.attention.default in [node.target for node in program.graph.nodes]
    assert torch.equal(program.module()(*other.arguments), other.run())


def test_vmap_is_refused(device):
    problem = Problem(**CASE, device=device)
    for function in (jfa.attention, torch.ops.jfa.attention):
        with pytest.raises(jfa.Unsupported, match="vmap"):
            torch.vmap(function, in_dims=(0, None, None, None, None))(problem.query[None], *problem.arguments[1:])


def test_torch_func_grad(device):
    problem = Problem(**CASE, device=device)
    inputs = tuple(tensor.detach() for tensor in problem.inputs)
    offsets = problem.query_offset, problem.key_offset
    found = torch.func.grad(lambda *tensors: (jfa.attention(*tensors, *offsets) * problem.output_grad).sum(),
                            argnums=(0, 1, 2))(*inputs)
    assert all(torch.equal(*pair) for pair in zip(found, problem.gradients(problem.run())))


def test_forward_mode_is_refused(device):
    """A tangent is not dropped without a word."""
    problem = Problem(**CASE, device=device)
    query, *others = (tensor.detach() for tensor in problem.arguments)
    with pytest.raises(jfa.Unsupported, match="forward-mode"):
        torch.func.jvp(lambda q: jfa.attention(q, *others), (query,), (query,))
    with forward_ad.dual_level(), pytest.raises(jfa.Unsupported, match="forward-mode"):
        jfa.attention(forward_ad.make_dual(query, query), *others)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(reentrant, device):
    problem = Problem(**CASE, device=device)
    wanted = problem.gradients(layer(*problem.arguments)[0])
    output = checkpoint(layer, *problem.arguments, use_reentrant=reentrant)[0]
    output.backward(problem.output_grad)
    assert all(torch.equal(tensor.grad, gradient) for tensor, gradient in zip(problem.inputs, wanted))


def test_flops(device):
    """Exact where the offsets' values are known, an upper bound that says so where they are not."""
    head = 2 * 2 * 16  # FLOP of one pair in one product, times heads
    for options, pairs in ((CASE, 3 * 7 + 1 * 2), (SHARED, 3 * 9), (CASE | {"window": 1}, 2 + 3 + 3 + 2),
                           (CASE | {"window": (2, 0), "alignment": "bottom_right"}, 3 * 3 + 2)):
        problem = Problem(**options, device=device)
        with FlopCounterMode(display=False) as forward, warnings.catch_warnings():
            warnings.simplefilter("error")
            output = problem.run()
        assert forward.get_total_flops() == 2 * head * pairs
        with FlopCounterMode(display=False) as backward:
            output.sum().backward()
        assert backward.get_total_flops() == 5 * head * pairs
    meta = [tensor.detach().to("meta") for tensor in Problem(**CASE).arguments]
    with FlopCounterMode(display=False) as counted, pytest.warns(UserWarning, match="upper bound"):
        jfa.attention(*meta)
    assert counted.get_total_flops() == 2 * head * 8 * 9
    for window, pairs in ((None, 3 * 9), (0, 3 * 3)):  # a shared query has a window in every sequence
        meta = [tensor.detach().to("meta") for tensor in Problem(**SHARED).arguments]
        with FlopCounterMode(display=False) as counted, pytest.warns(UserWarning, match="upper bound"):
            jfa.attention(*meta, broadcast_q=True, window=window)
        assert counted.get_total_flops() == 2 * head * pairs


def test_refusals_are_the_same_in_a_compiled_graph(device):
    problem = Problem(**CASE, device=device)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match="query.dtype is torch.float32"):
        compiled(problem.query.float(), *problem.arguments[1:])


def test_autocast_in_a_compiled_graph(device):
    problem = Problem(**CASE, device=device)
    inputs = [tensor.detach().float() for tensor in problem.inputs]
    with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
        compiled = torch.compile(jfa.attention, fullgraph=True, backend="aot_eager")
        output = compiled(*inputs, problem.query_offset, problem.key_offset)
    check(output, problem.run(), problem.dtype, "output")
