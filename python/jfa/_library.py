"""libjfa.so: found, loaded once, and its functions, which raise the errors of jfa.errors."""

import ctypes
import os
import pathlib
import threading
from ctypes import c_char_p, c_int32, c_int64, c_size_t, c_uint64, c_void_p

from . import errors
from ._version import VERSION

_HERE = pathlib.Path(__file__).resolve().parent
_FUNCTIONS = {  # those that return a jfa_error; structures are bytes (_structures.py)
    "jfa_device_open": [c_char_p, c_void_p],
    "jfa_allocate": [c_void_p, c_uint64, c_void_p],
    "jfa_free": [c_void_p, c_uint64],
    "jfa_upload": [c_void_p, c_uint64, c_void_p, c_uint64],
    "jfa_download": [c_void_p, c_void_p, c_uint64, c_uint64],
    "jfa_synchronize": [c_void_p, c_void_p],
    "jfa_forward": [c_void_p, c_char_p, c_char_p, c_uint64, c_char_p, c_void_p],
    "jfa_workspace_bytes": [c_char_p, c_void_p],
    "jfa_backward": [c_void_p, c_char_p, c_char_p, c_uint64, c_char_p, c_uint64, c_char_p, c_char_p, c_char_p, c_char_p,
                     c_void_p],
    "jfa_backward_workspace_bytes": [c_char_p, c_char_p, c_void_p],
    "jfa_status": [c_void_p, c_char_p, c_void_p],
    "jfa_supported": [c_char_p],
    "jfa_supported_head_dims": [c_void_p, c_size_t, c_void_p],
    "jfa_prepare": [c_void_p, c_char_p],
}


def path():
    """The library's file: JFA_LIBRARY, or the one inside the package."""
    given = os.environ.get("JFA_LIBRARY")
    if not given:
        return _HERE / "lib" / "libjfa.so"
    # The loader searches for a name without a slash, and pathlib leaves out that of "./libjfa.so".
    return pathlib.Path(given).absolute() if "/" in given else pathlib.Path(given)


class Library:
    """libjfa.so. Functions are attributes: library.jfa_forward(…); they raise jfa.errors.Error."""

    def __init__(self, file):
        try:
            self._library = ctypes.CDLL(str(file))
        except OSError as error:
            raise errors.Unavailable(f"{file} cannot be loaded: {error}; install the package with "
                                     "`pip install ./python`, or set JFA_LIBRARY to a built libjfa.so") from error
        for name, arguments in _FUNCTIONS.items():
            try:
                function = getattr(self._library, name)
            except AttributeError:
                raise errors.Unavailable(f"{file} has no {name}: it is another version than the Python package, "
                                         f"{VERSION}", argument="JFA_LIBRARY", value=str(file)) from None
            function.argtypes = arguments
            function.restype = c_int32
            function.errcheck = self._check
            setattr(self, name, function)
        for name in ("jfa_last_error_message", "jfa_last_error_detail", "jfa_version"):
            getattr(self._library, name).restype = c_char_p
        self._library.jfa_device_target.argtypes = [c_void_p]
        self._library.jfa_device_target.restype = c_char_p
        self.version = self._library.jfa_version().decode()

    def _check(self, result, function, arguments):
        if result:
            raise errors.BY_CODE.get(result, errors.InternalError)(
                self._library.jfa_last_error_message().decode(errors="replace"),
                self._library.jfa_last_error_detail().decode(errors="replace"))

    def open(self, name):
        """A handle of the device, which lives as long as the process does."""
        handle = c_void_p()
        self.jfa_device_open(name.encode(), ctypes.byref(handle))
        return handle.value

    def target(self, device):
        return self._library.jfa_device_target(device).decode()

    def allocate(self, device, byte_count):
        address = c_uint64()
        self.jfa_allocate(device, byte_count, ctypes.byref(address))
        return address.value

    def workspace_bytes(self, call):
        byte_count = c_uint64()
        self.jfa_workspace_bytes(call, ctypes.byref(byte_count))
        return byte_count.value

    def backward_workspace_bytes(self, call, output_grad):
        byte_count = c_uint64()
        self.jfa_backward_workspace_bytes(call, output_grad, ctypes.byref(byte_count))
        return byte_count.value

    def supported_head_dims(self):
        count = c_size_t()
        self.jfa_supported_head_dims(None, 0, ctypes.byref(count))
        head_dims = (c_int64 * count.value)()
        self.jfa_supported_head_dims(head_dims, count.value, ctypes.byref(count))
        return list(head_dims)


def asked_for_kernels():
    """Whether this process may have read its places for kernels (the environment's JFA_BUNDLES and the like)."""
    return bool(_devices)


_lock = threading.Lock()
_loaded = None
_devices = {}


def library():
    """The Library, loaded by the first caller."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = Library(path())
    return _loaded


def device(name):
    """The handle of a device, opened once."""
    handle = _devices.get(name)
    if handle is None:
        opened = library().open(name)
        handle = _devices.setdefault(name, opened)
    return handle
