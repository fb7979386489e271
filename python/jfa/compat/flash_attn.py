"""The signatures of the package flash_attn (FlashAttention-2) for sequences of unequal length."""

from .. import attention
from ._packed import packed_attention
from ._refuse import unless, window_from_ends


def _refuse(dropout_p, softcap, alibi_slopes):
    unless(0.0, "dropout_p", dropout_p, "there is no dropout")
    unless(0.0, "softcap", softcap, "there is no softcap")
    unless(None, "alibi_slopes", alibi_slopes, "there is no bias")


def _results(result, return_attn_probs):
    """What the original returns: with return_attn_probs (output, LSE, None), its last one being for debugging only."""
    return (*result, None) if return_attn_probs else result


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
                           softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                           deterministic=False, return_attn_probs=False, block_table=None):
    """jfa.attention() of packed sequences. Maximum lengths are not needed; the backward is always deterministic."""
    _refuse(dropout_p, softcap, alibi_slopes)
    unless(None, "block_table", block_table, "there are no paged keys")
    window = window_from_ends(window_size, causal, cu_seqlens_q, cu_seqlens_k)
    result = attention(q, k, v, cu_seqlens_q, cu_seqlens_k, **window, scale=softmax_scale,
                       return_lse=return_attn_probs)
    return _results(result, return_attn_probs)


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, dropout_p=0.0, softmax_scale=None, causal=False,
                                     window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False,
                                     return_attn_probs=False):
    """flash_attn_varlen_func() of qkv [total, 3, heads, head_dim]."""
    _refuse(dropout_p, softcap, alibi_slopes)
    window = window_from_ends(window_size, causal, cu_seqlens, cu_seqlens)
    result = packed_attention(None, qkv, cu_seqlens, cu_seqlens, window, softmax_scale, return_attn_probs)
    return _results(result, return_attn_probs)


def flash_attn_varlen_kvpacked_func(q, kv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
                                    softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                                    alibi_slopes=None, deterministic=False, return_attn_probs=False):
    """flash_attn_varlen_func() of kv [total_k, 2, heads, head_dim]."""
    _refuse(dropout_p, softcap, alibi_slopes)
    window = window_from_ends(window_size, causal, cu_seqlens_q, cu_seqlens_k)
    result = packed_attention(q, kv, cu_seqlens_q, cu_seqlens_k, window, softmax_scale, return_attn_probs)
    return _results(result, return_attn_probs)
