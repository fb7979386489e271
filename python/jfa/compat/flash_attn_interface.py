"""The signature of the package flash_attn_interface (FlashAttention-3) for sequences of unequal length."""

from .. import attention
from ._refuse import unless, window_from_ends


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, seqused_q=None,
                           seqused_k=None, softmax_scale=None, causal=False, qv=None, q_descale=None, k_descale=None,
                           v_descale=None, window_size=(-1, -1), attention_chunk=0, softcap=0.0, num_splits=1,
                           pack_gqa=None, deterministic=False, sm_margin=0, return_attn_probs=False):
    """jfa.attention() of packed sequences; (output, LSE) with return_attn_probs.

    Maximum lengths, num_splits, pack_gqa and sm_margin change no result there and are not needed here.
    """
    unless(None, "seqused_q", seqused_q, "rows of a sequence that are not used")
    unless(None, "seqused_k", seqused_k, "rows of a sequence that are not used")
    unless(None, "qv", qv, "there is no second query")
    for name, value in (("q_descale", q_descale), ("k_descale", k_descale), ("v_descale", v_descale)):
        unless(None, name, value, "there is no fp8")
    unless(0, "attention_chunk", attention_chunk, "there are no chunks")
    unless(0.0, "softcap", softcap, "there is no softcap")
    window = window_from_ends(window_size, causal, cu_seqlens_q, cu_seqlens_k)
    return attention(q, k, v, cu_seqlens_q, cu_seqlens_k, **window, scale=softmax_scale,
                     return_lse=return_attn_probs)
