"""jfa.numpy, which needs no PyTorch."""

import numpy
import pytest

import jfa
import jfa.numpy


def make(seed=1, queries=(3, 4, 1), keys=(7, 0, 2), heads=2, head_dim=16):
    random = numpy.random.default_rng(seed)
    query, key, value = (random.standard_normal((rows, heads, head_dim)).astype(numpy.float16)
                         for rows in (sum(queries), sum(keys), sum(keys)))
    return query, key, value, *(numpy.cumsum([0, *lengths]) for lengths in (queries, keys))


def reference(query, key, value, query_offset, key_offset):
    """(output, probabilities of every sequence) in float64."""
    output = numpy.zeros(query.shape)
    probabilities = []
    for b in range(len(query_offset) - 1):
        rows, columns = (slice(offset[b], offset[b + 1]) for offset in (query_offset, key_offset))
        q, k, v = (x.astype(float).transpose(1, 0, 2) for x in (query[rows], key[columns], value[columns]))
        scores = q @ k.transpose(0, 2, 1) / 4
        weights = numpy.exp(scores - scores.max(2, keepdims=True, initial=-1e9))
        probabilities.append(weights / numpy.maximum(weights.sum(2, keepdims=True), 1e-300))
        output[rows] = (probabilities[-1] @ v).transpose(1, 0, 2)
    return output, probabilities


def test_forward_and_backward(device_name):
    arguments = make()
    query, key, value, query_offset, key_offset = arguments
    output, lse = jfa.numpy.attention(*arguments, device=device_name)
    expected, probabilities = reference(*arguments)
    assert numpy.abs(output - expected).max() < 3e-3
    assert numpy.isneginf(lse[:, 3:7]).all() and numpy.isfinite(lse[:, [0, 1, 2, 7]]).all()

    output_grad = numpy.broadcast_to(numpy.float16(1), output.shape)
    gradients = jfa.numpy.attention_backward(output_grad, query, key, value, output, lse, query_offset, key_offset,
                                             device=device_name)
    seen = numpy.concatenate([p.sum(1).T for p in probabilities])  # dV of a gradient of ones: the columns' sums
    assert numpy.abs(gradients[2] - seen[:, :, None]).max() < 3e-3
    for b, p in enumerate(probabilities):
        k, v = (x[key_offset[b]:key_offset[b + 1]].astype(float).transpose(1, 0, 2) for x in (key, value))
        sums = v.sum(2)[:, None]  # what one more unit of a key's probability adds to the outputs
        expected_grad = p * (sums - (p * sums).sum(2, keepdims=True)) @ k / 4
        found = gradients[0][query_offset[b]:query_offset[b + 1]].transpose(1, 0, 2)
        assert numpy.abs(found - expected_grad).max() < 1e-2

    lse_only = jfa.numpy.attention_backward(numpy.zeros_like(output), query, key, value, output, lse, query_offset,
                                            key_offset, lse_grad=numpy.ones_like(lse), device=device_name)
    expected = numpy.concatenate([(p @ key[key_offset[b]:key_offset[b + 1]].transpose(1, 0, 2) / 4).transpose(1, 0, 2)
                                  for b, p in enumerate(probabilities)])
    assert numpy.abs(lse_only[0] - expected).max() < 3e-3 and not lse_only[2].any()


def test_simulate_names_the_device(device_name):
    with pytest.raises(jfa.Unavailable, match="jfa.simulate"):
        jfa.numpy.attention(*make())
    with jfa.simulate():
        output, _ = jfa.numpy.attention(*make())
    assert output.shape == (8, 2, 16)


def test_strides(device_name):
    query, key, value, *offsets = make()
    plain, _ = jfa.numpy.attention(query, key, value, *offsets, device=device_name)
    laid_out = [numpy.stack([x, x], 3)[..., 0] for x in (query, key, value)]
    assert numpy.array_equal(plain, jfa.numpy.attention(*laid_out, *offsets, device=device_name)[0])
    backwards = query[::-1].copy()[::-1]
    assert numpy.array_equal(plain, jfa.numpy.attention(backwards, key, value, *offsets, device=device_name)[0])


def test_refusals(device_name):
    query, key, value, *offsets = make()
    cases = {
        "query.dtype is float64": (query.astype(float), key, value, *offsets),
        "key.shape is": (query, key[0], value, *offsets),
        "query is list": (query.tolist(), key, value, *offsets),
        "key_offset is float64": (query, key, value, offsets[0], offsets[1].astype(float)),
        "query_offset is None": (query, key, value, None, offsets[1]),
        r"key_offset\[1\] is 99": (query, key, value, offsets[0], numpy.array([0, 99, 99, 99])),
        "value.rows": (query, key, value[1:], *offsets),
    }
    for message, arguments in cases.items():
        with pytest.raises(jfa.InvalidArgument, match=message):
            jfa.numpy.attention(*arguments, device=device_name)
    with pytest.raises(jfa.InvalidArgument, match="window is 'wide'"):
        jfa.numpy.attention(query, key, value, *offsets, window="wide", device=device_name)
    with pytest.raises(jfa.InvalidArgument, match="toaster:0"):
        jfa.numpy.attention(query, key, value, *offsets, device="toaster:0")
