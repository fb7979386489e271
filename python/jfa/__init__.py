"""Jagged flash attention for PyTorch: jfa.attention(query, key, value, query_offset, key_offset).

Without PyTorch there is jfa.numpy. docs/python.md of the project describes everything.
"""

import importlib as _importlib
import importlib.util as _importlib_util
import sys as _sys

from ._simulate import simulate
from ._version import VERSION as __version__
from .errors import (CompileError, DeviceError, Error, InternalError, InvalidArgument, Unavailable, Unsupported)
from .kernels import load_bundle, precompile, prepare

_OLDEST_TORCH = (2, 6)
_TORCH_NAMES = ("attention", "offsets_of", "synchronize")

__all__ = ["CompileError", "DeviceError", "Error", "InternalError", "InvalidArgument", "Unavailable", "Unsupported",
           "load_bundle", "precompile", "prepare", "simulate", "version", *_TORCH_NAMES]


def _torch_is_missing():
    """Why jfa.attention is not there; None if it is."""
    if not _importlib_util.find_spec("torch"):
        return f"which this Python ({_sys.executable}) does not have"
    import torch

    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < _OLDEST_TORCH:
        return f"{_OLDEST_TORCH[0]}.{_OLDEST_TORCH[1]} or newer; this is {torch.__version__}, beside jfa {__version__}"
    return None


_missing = _torch_is_missing()
if _missing is None:
    from . import ops
    from ._attention import attention, synchronize
    from ._jagged import offsets_of


def __getattr__(name):
    if name == "numpy":  # imports numpy, which not everybody has
        return _importlib.import_module("jfa.numpy")
    if name in _TORCH_NAMES:
        raise ImportError(f"jfa.{name} needs PyTorch, {_missing}. jfa.numpy works without")
    raise AttributeError(f"module 'jfa' has no attribute '{name}'")


def version():
    """The library's version, "0.1.0"."""
    from . import _library

    return _library.library().version
