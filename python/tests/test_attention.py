"""jfa.attention() and its gradients, against float64."""

import pytest
import torch

import jfa
from problems import Problem, check, check_problem

CASES = {
    "self": dict(query_lengths=[5, 0, 9], key_lengths=[5, 0, 9]),
    "cross": dict(query_lengths=[3, 4, 1], key_lengths=[7, 0, 2]),
    "fp16": dict(query_lengths=[3, 4], key_lengths=[7, 2], dtype=torch.float16),
    "groups": dict(query_lengths=[3, 4], key_lengths=[7, 2], heads=4, key_heads=2),
    "window": dict(query_lengths=[9, 3], key_lengths=[9, 3], window=1),
    "window, unequal lengths": dict(query_lengths=[9, 3], key_lengths=[4, 6], window=1),
    "causal": dict(query_lengths=[9, 3], key_lengths=[4, 6], causal=True),
    "causal, aligned at the ends": dict(query_lengths=[9, 3, 0], key_lengths=[4, 6, 2], causal=True,
                                        alignment="bottom_right", heads=4, key_heads=2),
    "two sides": dict(query_lengths=[9, 3], key_lengths=[7, 12], window=(3, 1), alignment="bottom_right"),
    "one open side": dict(query_lengths=[9, 3], key_lengths=[7, 12], window=(2, None)),
    "shared query, causal": dict(query_lengths=[3], key_lengths=[7, 0, 2], broadcast_q=True, causal=True),
    "shared query": dict(query_lengths=[3], key_lengths=[7, 0, 2], broadcast_q=True),
    "scale": dict(query_lengths=[3, 4], key_lengths=[7, 2], scale=-0.5),
    "no batch": dict(query_lengths=[], key_lengths=[]),
    "no queries": dict(query_lengths=[0, 0], key_lengths=[2, 3]),
}


@pytest.mark.parametrize("name", CASES)
def test_against_float64(name, device):
    check_problem(Problem(**CASES[name], device=device))


def test_gradient_of_the_output_alone(device):
    check_problem(Problem(**CASES["cross"], device=device), lse=False)


def test_a_loss_of_the_lse_alone_trains(device):
    """bug-pool 4: the gradient of the LSE reaches the query and key."""
    problem = Problem(**CASES["cross"], device=device)
    _, lse = problem.run(return_lse=True)
    _, expected = problem.reference()
    found, wanted = (torch.autograd.grad(torch.where(torch.isinf(x), 0, x).mul(problem.lse_grad).sum(), problem.inputs,
                                         allow_unused=True) for x in (lse, expected))
    for name, result, gradient in zip(("query", "key", "value"), found, wanted):
        if gradient is None:
            assert not result.any(), name
        else:
            check(result, gradient, problem.dtype, name)
            assert name == "value" or result.any(), name


@pytest.mark.parametrize("needs", range(1, 8))
def test_gradients_go_to_whoever_wants_them(needs, device):
    """bug-pool 132: one gradient for each input, with every combination of optional arguments."""
    problem = Problem(**CASES["shared query"], device=device)
    inputs = [tensor.detach().requires_grad_(bool(needs >> i & 1)) for i, tensor in enumerate(problem.inputs)]
    optional = {"scale": 0.25} if needs & 1 else {}
    optional |= {"output_offset": torch.tensor([0, 3, 6, 9], device=device)} if needs & 2 else {}
    query_offset = None if needs & 4 else problem.query_offset
    result = jfa.attention(*inputs, query_offset, problem.key_offset, broadcast_q=True, return_lse=bool(needs & 2),
                           **optional)
    (result[0] if needs & 2 else result).sum().backward()
    assert [tensor.grad is not None for tensor in inputs] == [bool(needs >> i & 1) for i in range(3)]


def test_nothing_is_recorded_without_need(device):
    problem = Problem(**CASES["self"], device=device)
    with torch.no_grad():
        assert problem.run().grad_fn is None
    with torch.inference_mode():
        assert problem.run().grad_fn is None
    assert jfa.attention(*(tensor.detach() for tensor in problem.inputs), problem.query_offset,
                         problem.key_offset).grad_fn is None


def test_expanded_gradient(device):
    """out.sum().backward() hands over one number with strides 0."""
    problem = Problem(**CASES["cross"], device=device)
    found = torch.autograd.grad(problem.run().sum(), problem.inputs)
    wanted = torch.autograd.grad(problem.reference()[0].sum(), problem.inputs)
    for name, result, gradient in zip(("query", "key", "value"), found, wanted):
        check(result, gradient, problem.dtype, name)


LAYOUTS = {
    "fused": lambda t: torch.stack([t, t, t], 1)[:, 1],
    "head-major": lambda t: t.transpose(0, 1).contiguous().transpose(0, 1),
    "expanded": lambda t: t[:, :1].expand(-1, 2, -1),
    "innermost stride 2": lambda t: torch.stack([t, t], 3)[..., 0],
    "odd row stride": lambda t: torch.nn.functional.pad(t.flatten(1), (0, 1))[:, :-1].view(t.shape),
    "odd address": lambda t: torch.cat([t.new_zeros(1), t.flatten()])[1:].view(t.shape),
    "one row of odd stride": lambda t: torch.nn.functional.pad(t[:1].flatten(1), (0, 1))[:, :-1].view(t[:1].shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides(layout, device):
    """What the library can read and what has to be copied: the same result, and gradients of the inputs' shapes."""
    problem = Problem(**CASES["cross"], device=device)
    rows = 1 if layout == "one row of odd stride" else None
    lengths = ([1], [1]) if rows else ([3, 4, 1], [7, 0, 2])
    offsets = [jfa.offsets_of(length).to(device) for length in lengths]
    laid_out = [LAYOUTS[layout](tensor) for tensor in problem.inputs]
    packed = [tensor.detach().contiguous().requires_grad_() for tensor in laid_out]
    results = [jfa.attention(*inputs, *offsets) for inputs in (laid_out, packed)]
    assert torch.equal(*results) and results[0].is_contiguous()
    grads = [torch.autograd.grad(result.float().square().sum(), inputs)
             for result, inputs in zip(results, (laid_out, packed))]
    assert all(torch.equal(*pair) for pair in zip(*grads))


def test_int32_and_sliced_offsets(device):
    problem = Problem(**CASES["cross"], device=device)
    offsets = [torch.stack([offset, offset], 1).int()[:, 0] for offset in (problem.query_offset, problem.key_offset)]
    assert torch.equal(jfa.attention(*problem.inputs, *offsets), problem.run())


def test_output_offset(device):
    """Sequences that lie elsewhere in the output than in the query."""
    problem = Problem([2, 3], [4, 5], device=device)
    wanted = problem.run()
    rows = torch.nn.functional.pad(problem.query, (0, 0, 0, 0, 2, 0))  # two rows that no sequence owns
    moved = jfa.attention(rows, problem.key, problem.value, problem.query_offset + 2, problem.key_offset,
                          output_offset=problem.query_offset)[:5]
    assert torch.equal(moved, wanted)
    assert all(torch.equal(*pair) for pair in zip(problem.gradients(moved), problem.gradients(wanted)))


def test_wrong_output_offset(device):
    problem = Problem([2, 3], [4, 5], device=device)
    output_offset = torch.tensor([3, 0], device=device)  # not ascending: refused, by name
    with pytest.raises(jfa.InvalidArgument, match="output_offset"):
        problem.run(output_offset=output_offset)
        jfa.synchronize() if device != "cpu" else None
    output = problem.run(output_offset=torch.tensor([0, 2, 5], device=device))
    assert torch.equal(output, problem.run())


def test_autocast(device):
    problem = Problem(**CASES["cross"], device=device)
    inputs = [tensor.detach().float().requires_grad_() for tensor in problem.inputs]
    kind = torch.device(device).type
    with torch.autocast(kind, dtype=torch.bfloat16):
        output = jfa.attention(*inputs, problem.query_offset, problem.key_offset)
    assert output.dtype == torch.bfloat16 and torch.equal(output, problem.run())
    output.sum().backward()
    assert all(tensor.grad.dtype == torch.float32 for tensor in inputs)
    refused = pytest.raises(jfa.InvalidArgument, match="query.dtype is torch.float64")
    with torch.autocast(kind, dtype=torch.bfloat16), refused:
        jfa.attention(*(tensor.double() for tensor in inputs), problem.query_offset, problem.key_offset)


def test_backward_outside_the_with(device, device_name):
    """A simulated device serves the backward of its forward, wherever that is called."""
    problem = Problem(**CASES["self"], device=device)
    output = problem.run()
    if device == "cpu":
        token = jfa._simulate._names.set(())
        try:
            problem.gradients(output)
        finally:
            jfa._simulate._names.reset(token)
    else:
        problem.gradients(output)


def test_second_derivatives_are_refused(device):
    """bug-pool 133: a gradient of a gradient is an error, not a wrong number."""
    problem = Problem(**CASES["self"], device=device)
    first = torch.autograd.grad(problem.run().float().square().sum(), problem.inputs, create_graph=True)
    plain = torch.autograd.grad(problem.run().float().square().sum(), problem.inputs)
    assert all(torch.equal(*pair) for pair in zip(first, plain))
    for gradient in first:
        with pytest.raises(jfa.Unsupported, match="second derivative"):
            torch.autograd.grad(gradient.float().square().sum(), problem.query, retain_graph=True)


def test_second_derivatives_of_inputs_that_were_copied_are_refused(device):
    """A penalty on the gradient is not left out without a word where the loss itself has a gradient."""
    problem = Problem(**CASES["self"], device=device)
    wide = torch.stack([problem.query] * 2, 3).detach().requires_grad_()
    key = torch.stack([problem.key] * 2, 3).detach()[..., 0]
    loss = jfa.attention(wide[..., 0], key, key, problem.query_offset, problem.key_offset).float().sum()
    gradient, = torch.autograd.grad(loss, wide, create_graph=True)
    with pytest.raises(jfa.Unsupported, match="second derivative"):
        (loss + gradient.float().square().sum()).backward()


def test_a_changed_input_is_noticed(device):
    problem = Problem(**CASES["self"], device=device)
    query = problem.query.detach().clone().requires_grad_()
    scaled = query * 1
    output = jfa.attention(scaled, problem.key, problem.value, problem.query_offset, problem.key_offset)
    scaled.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()
