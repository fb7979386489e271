"""FlexAttention's block mask of packed sequences.

PyTorch's create_block_mask looks at every (query, key) pair; with half a million rows that are too many. Here the
blocks follow from the offsets: packed sequences are ordered, so the keys that a block of queries sees are one range.
"""

import torch
from torch.nn.attention.flex_attention import BlockMask

BLOCK = 128


def _rows(offset, count):
    """Sequence and position of every row, padded to whole blocks with rows of no sequence."""
    offset = offset.long()
    row = torch.arange(count, device=offset.device)
    sequence = torch.searchsorted(offset, row, right=True) - 1
    return sequence, row - offset[sequence]


def _padded(values, fill):
    return torch.nn.functional.pad(values, (0, -len(values) % BLOCK), value=fill).to(torch.int32)


def _ordered(blocks):
    """A grid of booleans as BlockMask wants it: how many in each row, and which come first."""
    count = blocks.sum(1, dtype=torch.int32)
    index = torch.argsort(blocks.to(torch.int8), dim=1, descending=True, stable=True).to(torch.int32)
    return count[None, None], index[None, None]


def document_mask(query_offset, key_offset, window=None):
    """BlockMask of the attention of each sequence's queries to its own keys. window: a shapes.Window or None."""
    query_rows, key_rows = int(query_offset[-1]), int(key_offset[-1])
    sequence, position = _rows(query_offset, query_rows)
    key_sequence, key_position = _rows(key_offset, key_rows)

    # [first, last): the keys that each query sees.
    start, end = key_offset.long()[sequence], key_offset.long()[sequence + 1]
    first, last = start, end
    if window is not None:
        ends = key_offset.diff() - query_offset.diff() if window.at_ends else torch.zeros_like(query_offset[1:])
        position = position + ends.long()[sequence]  # where a query stands among the keys
        first, last = window.seen(position, end - start)
        first, last = torch.minimum(start + first, end), start + last.clamp(min=-1) + 1

    top = torch.arange(0, query_rows, BLOCK, device=query_offset.device)
    bottom = (top + BLOCK - 1).clamp(max=query_rows - 1)
    block = torch.arange(-(-key_rows // BLOCK), device=query_offset.device)[None]
    seen = (block >= (first[top] // BLOCK)[:, None]) & (block < (-(-last[bottom] // BLOCK))[:, None])
    # Seen by every query of the block, which then are all of one sequence; a block cut short is never full.
    full = (block >= (-(-first[bottom] // BLOCK))[:, None]) & (block < (last[top] // BLOCK)[:, None])
    full &= ((sequence[top] == sequence[bottom]) & (top + BLOCK <= query_rows))[:, None]

    sequence, position = _padded(sequence, -1), _padded(position, 0)
    key_sequence, key_position = _padded(key_sequence, -2), _padded(key_position, 0)

    def sees(batch, head, query, key):
        same = sequence[query] == key_sequence[key]
        if window is None:
            return same
        ahead = key_position[key] - position[query]
        same = same if window.left is None else same & (ahead >= -window.left)
        return same if window.right is None else same & (ahead <= window.right)

    count, index = _ordered(seen & ~full)
    full_count, full_index = _ordered(full)
    return BlockMask.from_kv_blocks(count, index, full_count, full_index, BLOCK_SIZE=BLOCK, mask_mod=sees,
                                    seq_lengths=(query_rows, key_rows))
