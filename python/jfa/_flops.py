"""What torch.utils.flop_counter counts for the operators."""

import warnings

import torch
from torch.utils import flop_counter

from ._window import from_list, sides

FORWARD_PRODUCTS, BACKWARD_PRODUCTS = 2, 5  # matrix products over the pairs; each is 2 * head_dim FLOP a pair


def _known(offset):
    """The offsets on the host, or None if they are only shapes."""
    if type(offset) not in (torch.Tensor, torch.nn.Parameter) or offset.device.type == "meta":
        return None
    return offset.to("cpu", torch.int64)


def _window_pairs(queries, keys, window):
    """Pairs of one sequence that the window keeps."""
    left, right, at_ends = sides(window)
    place = torch.arange(queries) + (keys - queries if at_ends else 0)
    first = torch.zeros_like(place) if left is None else (place - left).clamp(min=0)
    last = torch.full_like(place, keys - 1) if right is None else (place + right).clamp(max=keys - 1)
    return int((last - first + 1).clamp(min=0).sum())


def pairs(query_rows, key_rows, query_offset, key_offset, window, broadcast_q):
    """(query-key pairs of one head, whether that is exact or only an upper bound)."""
    key_values = _known(key_offset)
    query_values = None if broadcast_q else _known(query_offset)
    if key_values is None or (query_values is None and not broadcast_q):
        most = query_rows * key_rows
        left, right, _ = sides(window)
        if left is not None and right is not None:  # a row of every sequence
            most = min(most, query_rows * (left + 1 + right) * (key_offset.shape[0] - 1 if broadcast_q else 1))
        return most, False
    keys = key_values.diff()
    queries = torch.full_like(keys, query_rows) if broadcast_q else query_values.diff()
    if window is None:
        return int((queries * keys).sum()), True
    return sum(_window_pairs(int(q), int(k), window) for q, k in zip(queries, keys)), True


def _count(products, query, key, query_offset, key_offset, window, broadcast_q):
    count, exact = pairs(query.shape[0], key.shape[0], query_offset, key_offset, from_list(window), broadcast_q)
    if not exact:
        warnings.warn("jfa: the offsets' values are not known here, so the FLOPs counted for jfa.attention are an "
                      "upper bound: every query with every key of the batch", stacklevel=2)
    return products * 2 * query.shape[1] * query.shape[2] * count


def _forward(query, key, value, query_offset, key_offset, output_offset=None, window=None, broadcast_q=False,
             scale=None, out_val=None):
    return _count(FORWARD_PRODUCTS, query, key, query_offset, key_offset, window, broadcast_q)


def _backward(output_grad, lse_grad, output, lse, query, key, value, query_offset, key_offset, output_offset=None,
              window=None, broadcast_q=False, scale=None, out_val=None):
    return _count(BACKWARD_PRODUCTS, query, key, query_offset, key_offset, window, broadcast_q)


def register():
    flop_counter.register_flop_formula(torch.ops.jfa.attention, get_raw=True)(_forward)
    flop_counter.register_flop_formula(torch.ops.jfa.attention_backward, get_raw=True)(_backward)
