"""The attentions that are compared. Each class takes Data, does everything that is not to be timed when it is made,
and raises Unfit if it cannot express the problem."""

import torch

import jfa
from document_mask import document_mask
from shapes import Window


class Unfit(Exception):
    """This library has no way to say this problem."""


class Data:
    """One problem's tensors. A shared query is [q_len, heads, head_dim]."""

    def __init__(self, problem, device):
        def numbers(rows, heads):
            return torch.randn(rows, heads, problem.head_dim, device=device, dtype=torch.bfloat16)

        torch.manual_seed(1)
        self.problem = problem
        self.query = numbers(problem.query_rows, problem.heads)
        self.key, self.value = (numbers(problem.key_rows, problem.key_heads) for _ in range(2))
        self.output_grad = numbers(problem.output_rows, problem.heads)
        self.query_offset = problem.query_offset.to(device)
        self.key_offset = problem.key_offset.to(device)

    def repeated_query(self):
        """A query of its own for every sequence, for those that know no shared one."""
        return self.query.repeat(self.problem.batch, 1, 1) if self.problem.shared_query else self.query

    def shared_grad(self, query_grad):
        """The gradient of the shared query from that of repeated_query(); in fp32."""
        query_grad = query_grad.float()
        return query_grad.unflatten(0, (self.problem.batch, -1)).sum(0) if self.problem.shared_query else query_grad

    def repeated_heads(self, tensor):
        """A key head for every query head, for those that know no groups."""
        return tensor.repeat_interleave(self.problem.groups, 1) if self.problem.groups > 1 else tensor

    def grouped_grad(self, grad):
        """The gradient of a tensor from that of its repeated_heads(); in fp32."""
        return grad.float().unflatten(1, (self.problem.key_heads, self.problem.groups)).sum(2)


class _Autograd:
    """Backward of a forward that is made of PyTorch operations. Subclasses have inputs, leaf tensors, and attend()."""

    def __init__(self, data, inputs, backward):
        self.data = data
        self.inputs = [tensor.detach().requires_grad_(backward) for tensor in inputs]
        if backward:
            self.output = self.attend()
            self.output_grad = self.laid_out(data.output_grad)

    def forward(self):
        return self.attend()

    def backward(self):
        return torch.autograd.grad(self.output, self.inputs, self.output_grad, retain_graph=True)

    def laid_out(self, tensor):
        """[rows, heads, head_dim] as the library wants it."""
        return tensor

    def packed(self, tensor):
        """What laid_out() did, undone."""
        return tensor

    def results(self, backward):
        """For comparison: the output, or the gradients of query, key and value; [rows, heads, head_dim]."""
        if not backward:
            return [self.packed(self.forward())]
        query_grad, key_grad, value_grad = (self.packed(grad) for grad in self.backward())
        return [self.data.shared_grad(query_grad), self.grouped(key_grad), self.grouped(value_grad)]

    def grouped(self, grad):
        return self.data.grouped_grad(grad)


class Varlen(_Autograd):
    """torch.nn.attention.varlen, which is FlashAttention-2."""

    name = "varlen_attn"

    def __init__(self, data, backward):
        from torch.nn.attention.varlen import varlen_attn

        problem = data.problem
        self.varlen_attn = varlen_attn
        self.window = (-1, -1)
        if problem.window is not None:
            if not (problem.window.at_ends or problem.self_attention):
                raise Unfit("windows are aligned to the sequences' ends")
            self.window = tuple(-1 if side is None else side for side in (problem.window.left, problem.window.right))
        self.longest = int(problem.query_lengths.max()), int(problem.key_lengths.max())
        super().__init__(data, [data.repeated_query(), data.repeated_heads(data.key), data.repeated_heads(data.value)],
                         backward)

    def attend(self):
        return self.varlen_attn(*self.inputs, self.data.query_offset, self.data.key_offset, *self.longest,
                                window_size=self.window)


class Cudnn(_Autograd):
    """cuDNN through scaled_dot_product_attention, for sequences of one length."""

    name = "cudnn"

    def __init__(self, data, backward):
        self.causal = data.problem.window == Window(None, 0)
        if not data.problem.dense or not (self.causal or data.problem.window is None):
            raise Unfit("dense shapes only, causal or without a window")
        self.batch = data.problem.batch
        packed = data.repeated_query(), data.repeated_heads(data.key), data.repeated_heads(data.value)
        super().__init__(data, [self.laid_out(tensor) for tensor in packed], backward)

    def attend(self):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(*self.inputs, is_causal=self.causal)

    def laid_out(self, tensor):
        return tensor.unflatten(0, (self.batch, -1)).transpose(1, 2)

    def packed(self, tensor):
        return tensor.transpose(1, 2).flatten(0, 1)


class Flex(_Autograd):
    """FlexAttention, compiled for the shape, with a block mask of the sequences."""

    name = "flex_attention"

    def __init__(self, data, backward):
        from torch.nn.attention.flex_attention import flex_attention

        torch.compiler.reset()  # nothing is kept from the shape before
        self.compiled = torch.compile(flex_attention, dynamic=False)
        self.mask = document_mask(data.query_offset, data.key_offset, data.problem.window)
        self.groups = data.problem.groups > 1
        inputs = [self.laid_out(tensor) for tensor in (data.repeated_query(), data.key, data.value)]
        super().__init__(data, inputs, backward)

    def attend(self):
        return self.compiled(*self.inputs, block_mask=self.mask, enable_gqa=self.groups)

    def laid_out(self, tensor):
        return tensor.transpose(0, 1)[None]

    def packed(self, tensor):
        return tensor[0].transpose(0, 1)

    def grouped(self, grad):
        return grad.float()


class Jfa:
    """jfa.attention(), without what autograd records: its own forward and backward operators."""

    name = "jfa"

    def __init__(self, data, backward):
        problem = data.problem
        self.data = data
        window = problem.window
        self.window = {} if window is None else {"window": (window.left, window.right), "alignment":
                                                 "bottom_right" if window.at_ends else "top_left"}
        sides = window and [-1 if side is None else side for side in (window.left, window.right)]
        self.arguments = (data.query, data.key, data.value, data.query_offset, data.key_offset, None,
                          window and [*sides, int(window.at_ends)], problem.shared_query, None)
        self.saved = torch.ops.jfa.attention(*self.arguments) if backward else None  # compiles, too

    def forward(self):
        query, key, value, query_offset, key_offset, _, _, shared_query, _ = self.arguments
        return jfa.attention(query, key, value, query_offset, key_offset, **self.window, broadcast_q=shared_query)

    def backward(self):
        return torch.ops.jfa.attention_backward(self.data.output_grad, None, *self.saved, *self.arguments)

    def results(self, backward):
        results = self.backward() if backward else [self.forward()]
        jfa.synchronize()
        return results


ALL = [Varlen, Jfa, Cudnn, Flex]
