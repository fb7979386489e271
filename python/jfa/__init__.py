"""Jagged flash attention for PyTorch: jfa.attention(query, key, value, query_offset, key_offset).

Without PyTorch there is jfa.numpy. docs/python.md of the project describes everything.
"""

import importlib.util as _importlib_util
import sys as _sys

from .errors import (CompileError, DeviceError, Error, InternalError, InvalidArgument, Unavailable, Unsupported)
from ._simulate import simulate

_TORCH_NAMES = ("attention", "offsets_of", "synchronize")

__all__ = ["CompileError", "DeviceError", "Error", "InternalError", "InvalidArgument", "Unavailable", "Unsupported",
           "simulate", "version", *_TORCH_NAMES]

if _importlib_util.find_spec("torch"):
    from . import ops
    from ._attention import attention, synchronize
    from ._jagged import offsets_of


def __getattr__(name):
    if name in _TORCH_NAMES:
        raise ImportError(f"jfa.{name} needs PyTorch, which this Python ({_sys.executable}) does not have; jfa.numpy "
                          "does not")
    raise AttributeError(f"module 'jfa' has no attribute '{name}'")


def version():
    """The library's version, "0.1.0"."""
    from . import _library

    return _library.library().version
