"""Attention in float64, and what the tests compare with it."""

import torch

import jfa

TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 3e-3}


class Problem:
    """Random inputs of one call; every length may be 0."""

    def __init__(self, query_lengths, key_lengths, heads=2, key_heads=None, head_dim=16, dtype=torch.bfloat16,
                 device="cpu", seed=1, broadcast_q=False, **options):
        generator = torch.Generator().manual_seed(seed)

        def numbers(rows, count):
            return torch.randn(rows, count, head_dim, generator=generator).to(device, dtype).requires_grad_()

        self.query_offset = jfa.offsets_of(query_lengths).to(device)
        self.key_offset = jfa.offsets_of(key_lengths).to(device)
        query_rows = query_lengths[0] if broadcast_q else sum(query_lengths)
        self.query = numbers(query_rows, heads)
        self.key = numbers(sum(key_lengths), key_heads or heads)
        self.value = numbers(sum(key_lengths), key_heads or heads)
        self.broadcast_q, self.options, self.dtype = broadcast_q, options, dtype
        self.batch = len(key_lengths)
        self.output_grad = torch.randn(query_rows * (self.batch if broadcast_q else 1), heads, head_dim,
                                       generator=generator).to(device, dtype)
        self.lse_grad = torch.randn(heads, self.output_grad.shape[0], generator=generator).to(device)

    @property
    def inputs(self):
        return self.query, self.key, self.value

    @property
    def arguments(self):
        return *self.inputs, self.query_offset, self.key_offset

    def run(self, **more):
        """jfa.attention of it."""
        return jfa.attention(*self.arguments, broadcast_q=self.broadcast_q, **self.options, **more)

    def gradients(self, output, lse=None):
        """The gradients of the inputs, for output_grad and, with an lse, lse_grad."""
        outputs, grads = [output], [self.output_grad.to(output.dtype)]
        if lse is not None:
            lse = torch.where(torch.isinf(lse), torch.zeros_like(lse), lse)
            outputs, grads = [output, lse], [*grads, self.lse_grad.to(lse.dtype)]
        return torch.autograd.grad(outputs, self.inputs, grads)

    def reference(self):
        """(output, lse) in float64, differentiable."""
        return reference(*self.arguments, broadcast_q=self.broadcast_q, **self.options)


def seen_by(queries, keys, window=None, causal=False, alignment="top_left"):
    """Which keys each query sees, [queries, keys]."""
    left, right = window if isinstance(window, tuple) else (window, window)
    ahead = torch.arange(keys) - torch.arange(queries)[:, None]
    ahead -= keys - queries if alignment == "bottom_right" else 0
    seen = torch.ones(queries, keys, dtype=torch.bool)
    seen &= True if left is None else ahead >= -left
    return seen & (True if right is None and not causal else ahead <= (0 if causal else right))


def reference(query, key, value, query_offset, key_offset, broadcast_q=False, scale=None, **window):
    query, key, value = (tensor.double().transpose(0, 1) for tensor in (query, key, value))
    groups = query.shape[0] // key.shape[0]
    key, value = (tensor.repeat_interleave(groups, 0) for tensor in (key, value))
    scale = query.shape[2] ** -0.5 if scale is None else scale
    outputs, sums = [query[:, :0] @ key[:, :0].transpose(1, 2) @ value[:, :0]], [query[:, :0].sum(2)]
    for b in range(len(key_offset) - 1):
        q = query if broadcast_q else query[:, query_offset[b]:query_offset[b + 1]]
        k, v = (tensor[:, key_offset[b]:key_offset[b + 1]] for tensor in (key, value))
        scores = scale * q @ k.transpose(1, 2)
        seen = seen_by(q.shape[1], k.shape[1], **window).to(q.device)
        sums.append(torch.where(seen.any(1), scores.masked_fill(~seen, -1e300).logsumexp(2), -torch.inf)
                    if k.shape[1] else scores.new_full(scores.shape[:2], -torch.inf))
        safe = torch.where(torch.isinf(sums[-1]), torch.zeros_like(sums[-1]), sums[-1])
        probabilities = torch.where(seen, (scores - safe[..., None]).exp(), torch.zeros_like(scores))
        outputs.append(probabilities @ v)
    return torch.cat(outputs, 1).transpose(0, 1), torch.cat(sums, 1)


def check(result, expected, dtype, what):
    """Compares a tensor of the library with one of the reference, by the largest magnitude that there is."""
    result, expected = result.detach(), expected.detach()
    assert result.shape == expected.shape, what
    if result.numel() == 0:
        return
    finite = torch.isfinite(expected)
    assert torch.equal(torch.isfinite(result).cpu(), finite.cpu()), what
    difference = (result.double() - expected.double())[finite].abs().max() if finite.any() else 0.0
    bound = TOLERANCE[dtype] * max(1.0, float(expected[finite].abs().max()) if finite.any() else 1.0)
    assert difference <= bound, f"{what}: {difference} > {bound}"


def check_problem(problem, lse=True):
    """Output, LSE and gradients of jfa.attention against the reference."""
    output, sums = problem.run(return_lse=True)
    expected, expected_sums = problem.reference()
    check(output, expected, problem.dtype, "output")
    check(sums, expected_sums, problem.dtype, "lse")
    found = problem.gradients(output, sums if lse else None)
    wanted = problem.gradients(expected, expected_sums if lse else None)
    for name, result, gradient in zip(("query", "key", "value"), found, wanted):
        check(result, gradient, problem.dtype, f"{name}'s gradient")
