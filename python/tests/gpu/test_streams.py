"""Streams, events, captured graphs and several devices. Needs a real GPU."""

import ctypes

import pytest
import torch

import jfa
from problems import Problem, check_problem

BIG = dict(query_lengths=[700, 64, 300], key_lengths=[900, 0, 2000], heads=8, head_dim=128)


class StreamHandle:
    """CUDA's own handles for streams, which PyTorch may be handed."""

    LEGACY, PER_THREAD = 1, 2


@pytest.mark.parametrize("kind", ["default", "side", "external", "per thread"])
def test_runs_on_the_current_stream(kind, device):
    """bug-pool 109: the kernels land on exactly the current stream: they wait for what is before them there."""
    problem = Problem(**BIG, device=device)
    wanted = problem.run().detach()
    torch.cuda.synchronize()
    stream = {"default": torch.cuda.default_stream, "side": torch.cuda.Stream,
              "external": lambda: torch.cuda.ExternalStream(torch.cuda.Stream().cuda_stream),
              "per thread": lambda: torch.cuda.ExternalStream(StreamHandle.PER_THREAD)}[kind]()
    values = problem.value.detach().clone()
    problem.value.data.zero_()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)  # 0.1 s: whoever does not wait reads zeros
        problem.value.data.copy_(values)
        output = problem.run()
        done = torch.cuda.Event()
        done.record()
    assert not done.query()
    done.synchronize()
    assert torch.equal(output, wanted)


def test_backward_runs_on_the_stream_of_its_forward(device):
    problem = Problem(**BIG, device=device)
    wanted = problem.gradients(problem.run())
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        output = problem.run()
    found = problem.gradients(output)
    torch.cuda.current_stream().wait_stream(stream)
    assert all(torch.equal(*pair) for pair in zip(found, wanted))


def test_memory_is_not_handed_on_too_early(device):
    """Outputs and workspaces of many calls on two streams, freed at once."""
    problem = Problem(**BIG, device=device)
    wanted = problem.run().detach()
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for i in range(50):
        with torch.cuda.stream(streams[i % 2]), torch.no_grad():
            output = problem.run()
            equal = torch.equal(output, wanted)
        assert equal, i


def test_graph_replayed_with_other_lengths(device):
    """A forward and a backward, captured once, replayed with lengths that the capture did not know."""
    problem = Problem(**BIG, device=device)
    query_offset, key_offset = problem.query_offset.clone(), problem.key_offset.clone()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())

    def step():
        output = jfa.attention(*problem.inputs, query_offset, key_offset)
        return output, *torch.autograd.grad(output, problem.inputs, problem.output_grad)

    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    for query_lengths, key_lengths in (([700, 64, 300], [900, 0, 2000]), ([1000, 0, 64], [1, 2899, 0]),
                                       ([0, 1064, 0], [0, 5, 9])):
        query_offset.copy_(jfa.offsets_of(query_lengths))
        key_offset.copy_(jfa.offsets_of(key_lengths))
        graph.replay()
        wanted = step()
        assert all(torch.equal(*pair) for pair in zip(captured, wanted)), query_lengths


def test_a_first_call_inside_a_capture_is_refused_and_says_what_to_do(device):
    problem = Problem([5], [5], head_dim=24, dtype=torch.float16, window=77, device=device)
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(jfa.Error, match="prepare"):
        with torch.cuda.graph(graph):
            problem.run()
    torch.cuda.synchronize()
    jfa.prepare(device, head_dim=24, dtype="fp16", window=77, passes="forward")
    wanted = problem.run().detach()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        output = problem.run()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(output, wanted)


def test_bad_offsets_are_told_by_the_next_call(device):
    problem = Problem(**BIG, device=device)
    bad = problem.key_offset.clone()
    bad[1] = 10**6
    jfa.attention(*problem.inputs, problem.query_offset, bad)
    torch.cuda.synchronize()
    with pytest.raises(jfa.InvalidArgument, match=r"key_offset\[1\] is 1000000"):
        problem.run()
    problem.run()
    jfa.synchronize()


def test_two_devices_in_one_process(device):
    """The tensors' device counts, not the current one; autograd runs each on its own."""
    if torch.cuda.device_count() < 2:
        pytest.skip(f"two GPUs are needed, there is {torch.cuda.device_count()}")
    with torch.cuda.device(0):
        for name in ("cuda:1", "cuda:0"):
            check_problem(Problem([300, 5], [64, 700], head_dim=64, device=name))
            assert torch.cuda.current_device() == 0
        problem = Problem([3], [4], device="cuda:0")
        with pytest.raises(jfa.InvalidArgument, match="key.device is cuda:1"):
            jfa.attention(problem.query, problem.key.to("cuda:1"), problem.value, problem.query_offset,
                          problem.key_offset)


def test_inductor(device):
    """The whole compiler, with dynamic batch and totals."""
    torch._dynamo.reset()

    def layer(query, key, value, query_offset, key_offset):
        return (jfa.attention(query * 2, key, value, query_offset, key_offset).float() ** 2).mean()

    compiled = torch.compile(layer, fullgraph=True, dynamic=True)
    for lengths in (([700, 64, 300], [900, 0, 2000]), ([5, 900], [40, 1000])):
        problem = Problem(*lengths, heads=4, head_dim=64, device=device)
        results = [(f(*problem.arguments)) for f in (compiled, layer)]
        torch.testing.assert_close(*results)
        gradients = [torch.autograd.grad(result, problem.inputs) for result in results]
        for found, wanted in zip(*gradients):
            torch.testing.assert_close(found, wanted, atol=2e-2, rtol=2e-2)


def test_the_context_of_others_stays(device):
    driver = ctypes.CDLL("libcuda.so.1")
    before, after = ctypes.c_void_p(), ctypes.c_void_p()
    problem = Problem([3], [4], device=device)
    torch.cuda.synchronize()
    driver.cuCtxGetCurrent(ctypes.byref(before))
    problem.run()
    driver.cuCtxGetCurrent(ctypes.byref(after))
    assert before.value == after.value
