"""Errors name the argument and its value."""

import concurrent.futures
import threading

import pytest
import torch

import jfa
from problems import Problem


@pytest.fixture
def problem(device):
    return Problem([3, 4], [7, 2], device=device)


def refused(kind, argument, value, call):
    with pytest.raises(kind) as caught:
        call()
    assert (caught.value.argument, caught.value.value) == (argument, value), str(caught.value)
    assert argument in str(caught.value) and value in str(caught.value)
    assert isinstance(caught.value, jfa.Error)


def test_tensors(problem):
    def call(**changed):
        arguments = dict(query=problem.query, key=problem.key, value=problem.value, query_offset=problem.query_offset,
                         key_offset=problem.key_offset)
        return lambda: jfa.attention(**(arguments | changed))

    query, key = problem.query.detach(), problem.key.detach()
    refused(jfa.InvalidArgument, "query.dtype", "torch.float32", call(query=query.float()))
    refused(jfa.InvalidArgument, "key.dtype", "torch.float16", call(key=key.half()))
    refused(jfa.InvalidArgument, "query.shape", "[7, 32]", call(query=query.flatten(1)))
    refused(jfa.InvalidArgument, "value.shape", "[1, 9, 2, 16]", call(value=key[None]))
    for name in ("query", "key", "value"):
        refused(jfa.InvalidArgument, name, "list", call(**{name: query.tolist()}))
    refused(jfa.InvalidArgument, "key.head_dim", "8", call(key=key[..., :8].contiguous()))
    refused(jfa.InvalidArgument, "query_offset", "NoneType", call(query_offset=None))
    refused(jfa.InvalidArgument, "key_offset", "list", call(key_offset=[0, 7, 9]))
    refused(jfa.InvalidArgument, "key_offset.dtype", "torch.float32", call(key_offset=problem.key_offset.float()))
    refused(jfa.InvalidArgument, "key_offset.shape", "[1, 3]", call(key_offset=problem.key_offset[None]))
    refused(jfa.InvalidArgument, "query_offset.shape", "[0]", call(query_offset=problem.key_offset[:0]))
    refused(jfa.InvalidArgument, "window", "'wide'", call(window="wide"))
    refused(jfa.InvalidArgument, "window", "True", call(window=True))
    refused(jfa.InvalidArgument, "window", "-1", call(window=-1))
    refused(jfa.InvalidArgument, "window", str(2**70), call(window=2**70))
    refused(jfa.InvalidArgument, "window.left", "-1", call(window=(-1, 0)))
    refused(jfa.InvalidArgument, "window", "(1, 2, 3)", call(window=(1, 2, 3)))
    refused(jfa.InvalidArgument, "window", "(1, 'far')", call(window=(1, "far")))
    refused(jfa.InvalidArgument, "alignment", "'middle'", call(alignment="middle"))
    refused(jfa.InvalidArgument, "causal", "'yes'", call(causal="yes"))
    refused(jfa.Unsupported, "window", "'causal:bottom_right'",
            call(causal=True, alignment="bottom_right", broadcast_q=True))
    refused(jfa.InvalidArgument, "scale", "inf", call(scale=float("inf")))
    refused(jfa.InvalidArgument, "scale", "a tensor []", call(scale=torch.tensor(1.0)))
    refused(jfa.InvalidArgument, "scale", "'big'", call(scale="big"))
    refused(jfa.InvalidArgument, "broadcast_q", "None", call(broadcast_q=None))


def test_other_devices(problem, device):
    elsewhere = "meta" if device == "cpu" else "cpu"
    with pytest.raises(jfa.InvalidArgument, match=f"key.device is {elsewhere}"):
        jfa.attention(problem.query, problem.key.detach().to(elsewhere), problem.value, problem.query_offset,
                      problem.key_offset)
    with pytest.raises(jfa.InvalidArgument, match=f"key_offset.device is {elsewhere}"):
        jfa.attention(*problem.inputs, problem.query_offset, problem.key_offset.to(elsewhere))


@pytest.mark.parametrize("option, value", [("is_causal", True), ("window_size", (4, 0)), ("dropout_p", 0.1),
                                           ("softcap", 30.0), ("attn_mask", "a mask"), ("sm_scale", 0.5)])
def test_what_is_not_there_is_refused_by_name(problem, option, value):
    refused(jfa.Unsupported, option, str(value), lambda: problem.run(**{option: value}))
    with pytest.raises(NotImplementedError):
        problem.run(**{option: value})


def test_a_tensor_of_what_is_not_there_is_refused_by_name(problem):
    for option in ("attn_mask", "alibi_slopes", "block_table"):
        refused(jfa.Unsupported, option, "a tensor [2, 2]", lambda: problem.run(**{option: torch.ones(2, 2)}))


def test_what_is_switched_off_is_accepted(problem):
    assert torch.equal(problem.run(causal=False, dropout_p=0.0, attn_mask=None), problem.run())
    with pytest.raises(TypeError, match="'colour'"):
        problem.run(colour="red")


def test_bad_offsets(problem, device):
    bad = problem.key_offset.clone()
    bad[1] = 11
    with pytest.raises(jfa.InvalidArgument, match=r"key_offset\[1\] is 11") as caught:
        jfa.attention(*problem.inputs, problem.query_offset, bad)
        jfa.synchronize()
    assert (caught.value.argument, caught.value.value) == ("key_offset[1]", "11")
    problem.run()


def test_cpu_tensors_want_a_simulated_device():
    with pytest.raises(jfa.Unavailable, match=r"query is in CPU memory.*with jfa.simulate\("):
        Problem([3, 4], [7, 2]).run()
    with pytest.raises(jfa.InvalidArgument, match="cuda:0"):
        jfa.simulate("cuda:0")


def test_one_simulate_serves_many_threads():
    """A thread is inside only its own `with`s."""
    simulated = jfa.simulate("sim:sm_100a")

    def run(_):
        with simulated, jfa.simulate("sim:sm_90a"), simulated:
            inside.wait()
            return Problem([3, 4], [7, 2]).run()

    inside = threading.Barrier(2, timeout=60)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first, second = pool.map(run, range(2))
    assert torch.equal(first, second) and jfa._simulate.current() is None


def test_simulate_as_a_decorator():
    @jfa.simulate("sim:sm_100a")
    def run():
        return Problem([3, 4], [7, 2]).run()

    assert run().shape == (7, 2, 16)
