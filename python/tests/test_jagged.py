"""Batches that carry their offsets: PyTorch's jagged nested tensors and TorchRec's JaggedTensor."""

import pytest
import torch

import jfa
from problems import Problem

CROSS = dict(query_lengths=[3, 4, 1], key_lengths=[7, 0, 2])


def nested(values, offsets):
    return torch.nested.nested_tensor_from_jagged(values, offsets=offsets)


class JaggedTensor:
    """What jfa needs of torchrec.sparse.jagged_tensor.JaggedTensor: values, and lengths or offsets."""

    def __init__(self, values, weights=None, lengths=None, offsets=None):
        self._values, self._lengths, self._offsets = values, lengths, offsets

    def values(self):
        return self._values

    def offsets(self):
        return jfa.offsets_of(self._lengths) if self._offsets is None else self._offsets


@pytest.mark.parametrize("heads_first", [False, True])
def test_nested_tensors(heads_first, device):
    problem = Problem(**CROSS, device=device)
    tensors = [nested(values, offsets) for values, offsets in zip(
        problem.inputs, (problem.query_offset, problem.key_offset, problem.key_offset))]
    if heads_first:
        tensors = [tensor.transpose(1, 2) for tensor in tensors]
    output, lse = jfa.attention(*tensors, return_lse=True)
    assert output.is_nested and output.layout == torch.jagged
    output + tensors[0]  # of one jagged dimension with the query
    values = (output.transpose(1, 2) if heads_first else output).values()
    wanted = problem.run(return_lse=True)
    assert torch.equal(values, wanted[0]) and torch.equal(lse, wanted[1])
    assert all(torch.equal(*pair) for pair in zip(problem.gradients(values), problem.gradients(wanted[0])))


def test_pooling_of_nested_tensors(device):
    problem = Problem([3], [7, 0, 2], broadcast_q=True, device=device)
    keys = [nested(values, problem.key_offset) for values in problem.inputs[1:]]
    output = jfa.attention(problem.query, *keys, broadcast_q=True)
    assert torch.equal(output, problem.run())


def test_nested_tensors_in_a_compiled_graph(device):
    problem = Problem(**CROSS, device=device)
    tensors = [nested(values.detach(), offsets) for values, offsets in zip(
        problem.inputs, (problem.query_offset, problem.key_offset, problem.key_offset))]
    compiled = torch.compile(lambda *t: jfa.attention(*t) * 2, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*tensors).values(), problem.run() * 2)


@pytest.mark.parametrize("given", ["lengths", "offsets"])
def test_torchrec(given, device):
    problem = Problem(**CROSS, device=device)
    how = {"lengths": lambda o: {"lengths": o.diff().int()}, "offsets": lambda o: {"offsets": o}}[given]
    query = JaggedTensor(problem.query, **how(problem.query_offset))
    key, value = (JaggedTensor(tensor, **how(problem.key_offset)) for tensor in problem.inputs[1:])
    output = jfa.attention(query, key, value)
    assert type(output) is JaggedTensor and torch.equal(output.offsets().long(), problem.query_offset)
    wanted = problem.run()
    assert torch.equal(output.values(), wanted)
    assert all(torch.equal(*pair) for pair in zip(problem.gradients(output.values()), problem.gradients(wanted)))


def test_refused(device):
    problem = Problem(**CROSS, device=device)
    query = nested(problem.query, problem.query_offset)
    key = nested(problem.key, problem.key_offset)
    cases = {
        "query_offset is given": (query, key, key, problem.query_offset),
        "value is of another kind": (query, key, JaggedTensor(problem.value, offsets=problem.key_offset)),
        "query_offset is NoneType": (problem.query, key, key),
        "query.shape is": (nested(problem.query.flatten(1), problem.query_offset), key, key),
    }
    for message, arguments in cases.items():
        with pytest.raises(jfa.InvalidArgument, match=message):
            jfa.attention(*arguments)
    with pytest.raises(jfa.InvalidArgument, match="query is jagged"):
        jfa.attention(query, key, key, broadcast_q=True)
    gaps = torch.nested.nested_tensor_from_jagged(problem.key, offsets=problem.key_offset,
                                                  lengths=problem.key_offset.diff() // 2)
    with pytest.raises(jfa.Unsupported, match="key.lengths is given"):
        jfa.attention(query, gaps, gaps)


def test_offsets_of(device):
    lengths = torch.tensor([3, 0, 4], dtype=torch.int32, device=device)
    offsets = jfa.offsets_of(lengths)
    assert offsets.tolist() == [0, 3, 3, 7] and offsets.dtype == torch.int32 and offsets.device == lengths.device
    assert jfa.offsets_of([2, 5]).tolist() == [0, 2, 7] and jfa.offsets_of([]).tolist() == [0]
    with pytest.raises(jfa.InvalidArgument, match="lengths is torch.float32"):
        jfa.offsets_of(torch.ones(2))
