"""A pytest plugin: stands jfa.compat in for the packages that foreign tests import."""

import functools
import sys
import types

import pytest

import jfa
from jfa.compat import flash_attn_interface, tlx


def _skipping(function):
    """The function, with what it refuses made a skipped test."""
    @functools.wraps(function)
    def call(*arguments, **options):
        try:
            return function(*arguments, **options)
        except jfa.Unsupported as error:
            pytest.skip(f"refused: {error}")
    return call


def _varlen_func(*arguments, seqused_q=None, seqused_k=None, **options):
    """FlashAttention-3's function. Its test always gives used lengths; the whole ones say nothing."""
    for name, used, offsets in (("seqused_q", seqused_q, arguments[3]), ("seqused_k", seqused_k, arguments[4])):
        if used is not None and not (used == offsets.diff()).all():
            options[name] = used
    return _skipping(flash_attn_interface.flash_attn_varlen_func)(*arguments, **options)


def _not_here(name):
    def call(*_, **__):
        pytest.skip(f"refused: {name} is not part of jfa")
    return call


def _stand_in(name, **members):
    module = types.ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module


_stand_in("flash_attn_interface", flash_attn_varlen_func=_varlen_func, **{name: _not_here(name) for name in (
    "flash_attn_func", "flash_attn_combine", "flash_attn_with_kvcache", "get_scheduler_metadata")})
_stand_in("tlx_jagged_flash_attention", tlx_jagged_flash_attention=tlx.tlx_jagged_flash_attention)

try:
    import oss_test_utils
except ImportError:
    pass
else:
    oss_test_utils.skip_unless_blackwell = lambda *_: lambda test: test  # it would skip Hopper
