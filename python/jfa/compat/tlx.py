"""The signatures of the reference package tlx_jfa."""

import math

from .. import attention, errors

_LOG2_E = 1 / math.log(2)


def jagged_flash_attention(query, key, value, query_offset, key_offset, max_seq_len_q, max_seq_len_kv,
                           output_offset=None, sm_scale=None, window_size=None, broadcast_q=False,
                           use_on_device_tma=False):
    """The output of jfa.attention(). max_seq_len_q, max_seq_len_kv and use_on_device_tma are not needed."""
    return attention(query, key, value, query_offset, key_offset, output_offset=output_offset, window=window_size,
                     broadcast_q=broadcast_q, scale=sm_scale)


def tlx_jagged_flash_attention(query, key, value, query_offset, key_offset, max_seq_len_q, max_seq_len_kv,
                               output_offset=None, sm_scale=None, window_size=None, broadcast_q=False,
                               use_on_device_tma=False, cpu_query_offset=None, cpu_key_offset=None,
                               ad_to_request_offset=None):
    """(output, M): M is the log-sum-exp in base 2, float32 [Hq, output rows], and has a gradient.

    cpu_query_offset and cpu_key_offset are not needed.
    """
    if ad_to_request_offset is not None:
        raise errors.unsupported("ad_to_request_offset", ad_to_request_offset,
                                 "keys shared by several queries through a map")
    output, lse = attention(query, key, value, query_offset, key_offset, output_offset=output_offset,
                            window=window_size, broadcast_q=broadcast_q, scale=sm_scale, return_lse=True)
    return output, lse * _LOG2_E
