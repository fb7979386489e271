"""jfa.compat.tlx: the reference package's signatures and its three cases, at toy size."""

import inspect
import math

import pytest
import torch

import jfa
from jfa.compat import tlx
from problems import Problem, check, reference


def test_the_base_of_m(device):
    problem = Problem([3, 4], [7, 0], device=device)
    output, m = tlx.tlx_jagged_flash_attention(*problem.arguments, 4, 7, cpu_query_offset=problem.query_offset.cpu(),
                                               cpu_key_offset=problem.key_offset.cpu())
    expected, lse = problem.reference()
    check(output, expected, problem.dtype, "output")
    check(m, lse / math.log(2), problem.dtype, "M")
    assert m.dtype == torch.float32 and m.shape == (2, 7)
    wanted = torch.autograd.grad(lse[:, :3].sum() / math.log(2), problem.query)[0]
    check(torch.autograd.grad(m[:, :3].sum(), problem.query)[0], wanted, problem.dtype, "gradient of M")


@pytest.mark.parametrize("options", [
    dict(query_lengths=[9], key_lengths=[9, 3, 12], broadcast_q=True),
    dict(query_lengths=[9, 3, 12], key_lengths=[9, 3, 12], window=1),
    dict(query_lengths=[9, 9, 9], key_lengths=[9, 9, 9]),
], ids=["pooling", "window", "dense"])
def test_its_cases(options, device):
    problem = Problem(**options, device=device)
    more = {"window_size": problem.options.get("window"), "broadcast_q": problem.broadcast_q,
            "sm_scale": 1 / math.sqrt(16)}
    if problem.broadcast_q:
        more["output_offset"] = torch.arange(0, 9 * 3 + 1, 9, device=device)
    output = tlx.jagged_flash_attention(*problem.arguments, 12, 12, **more)
    expected, _ = reference(*problem.arguments, broadcast_q=problem.broadcast_q, **problem.options)
    check(output, expected, problem.dtype, "output")
    for found, wanted in zip(problem.gradients(output), problem.gradients(expected)):
        check(found, wanted, problem.dtype, "gradient")


def test_signatures():
    """Names, order and defaults of the published package."""
    first = ["query", "key", "value", "query_offset", "key_offset", "max_seq_len_q", "max_seq_len_kv", "output_offset",
             "sm_scale", "window_size", "broadcast_q", "use_on_device_tma"]
    documented = inspect.signature(tlx.jagged_flash_attention).parameters
    operator = inspect.signature(tlx.tlx_jagged_flash_attention).parameters
    assert list(documented) == first
    assert list(operator) == [*first, "cpu_query_offset", "cpu_key_offset", "ad_to_request_offset"]
    assert [p.default for p in operator.values()][7:] == [None, None, None, False, False, None, None, None]


def test_refused(device):
    problem = Problem([3, 4], [7, 2], device=device)
    with pytest.raises(jfa.Unsupported, match=r"ad_to_request_offset is a tensor \[3\]"):
        tlx.tlx_jagged_flash_attention(*problem.arguments, 4, 7, ad_to_request_offset=problem.key_offset)
