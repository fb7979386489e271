"""The signature of torch.nn.attention.varlen.varlen_attn."""

from .. import attention, errors
from ._refuse import unless, window_from_ends


def varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, return_aux=None, scale=None,
                window_size=(-1, -1), enable_gqa=False, seqused_k=None, block_table=None, num_splits=None):
    """jfa.attention() of packed sequences; (output, LSE) if return_aux asks for the LSE.

    max_q, max_k and num_splits change no result there and are not needed here. Unlike there, any finite scale works.
    """
    unless(None, "seqused_k", seqused_k, "rows of a sequence that are not used")
    unless(None, "block_table", block_table, "there are no paged keys")
    heads = [tensor.shape[1] for tensor in (query, key) if getattr(tensor, "ndim", 0) == 3]
    if not enable_gqa and len(heads) == 2 and heads[0] != heads[1]:
        raise errors.invalid("enable_gqa", enable_gqa, f"query has {heads[0]} heads and key has {heads[1]}")
    if cu_seq_k is None:
        raise errors.invalid("cu_seq_k", None, "offsets of the keys are wanted")
    window = window_from_ends(window_size, False, cu_seq_q, cu_seq_k)
    return attention(query, key, value, cu_seq_q, cu_seq_k, **window, scale=scale,
                     return_lse=bool(return_aux is not None and return_aux.lse))
