"""What goes wrong, by who can mend it. Every message names the argument and its value."""

import re

_NAME = r"([A-Za-z_][\w.]*(?:\[\d+\])?) "
_NAMED = re.compile(_NAME + r"(?:is (.+?)(?:[:;,] | although |$)|('[^']*'|-?[\d.]\S*|-?inf|-?nan|bf16|fp16)[ :])")


class Error(RuntimeError):
    """A call that failed.

    kind: "invalid argument", "unsupported", …; detail: a compiler's log and the like, often empty;
    argument, value: what the message names, as text, or None.
    """

    kind = "internal"

    def __init__(self, message, detail="", argument=None, value=None):
        super().__init__(message)
        if argument is None and (named := _NAMED.match(message)):
            argument, value = named[1], named[2] or named[3]
        self.detail, self.argument, self.value = detail, argument, value


class InvalidArgument(Error, ValueError):
    """The caller can mend it."""

    kind = "invalid argument"


class Unsupported(Error, NotImplementedError):
    """A right request that this library or device does not serve."""

    kind = "unsupported"


class Unavailable(Error):
    """Something outside is missing: NVRTC, the driver, a device, a file, memory."""

    kind = "unavailable"


class CompileError(Error):
    """NVRTC or ptxas refused a source; detail has the log and the source."""

    kind = "compile"


class DeviceError(Error):
    """The driver or a kernel failed."""

    kind = "device"


class InternalError(Error):
    """A defect of the library."""

    kind = "internal"


BY_CODE = {1: InvalidArgument, 2: Unsupported, 3: Unavailable, 4: CompileError, 5: DeviceError, 6: InternalError}


def _shown(value):
    return f"a tensor {list(value.shape)}" if hasattr(value, "data_ptr") else str(value)


def invalid(argument, value, why):
    """An InvalidArgument that says: argument is value: why."""
    return InvalidArgument(f"{argument} is {_shown(value)}: {why}", argument=argument, value=_shown(value))


def unsupported(argument, value, why):
    """An Unsupported that says: argument is value: why."""
    return Unsupported(f"{argument} is {_shown(value)}: {why}", argument=argument, value=_shown(value))
