"""Which simulated device serves tensors in CPU memory."""

import contextlib
import contextvars

from . import _library, errors

_names = contextvars.ContextVar("jfa_simulated_devices", default=())  # of the `with`s around, innermost last


class simulate(contextlib.ContextDecorator):
    """Runs jfa's calls on CPU tensors and arrays on a simulated GPU: `with jfa.simulate("sim:sm_100a"):`.

    A simulated GPU executes the kernels that a real one would, a million times slower; keep problems to a few hundred
    rows. What a forward recorded for autograd goes backward on the device of its forward, wherever backward() is
    called. name: "sim:sm_100a", "sim:sm_90a", with options such as "sim:sm_100a?sms=4" (README, Devices).
    """

    def __init__(self, name="sim:sm_100a"):
        if not str(name).startswith("sim:"):
            raise errors.invalid("name", repr(name), "a simulated device is called sim:sm_100a or sim:sm_90a; tensors "
                                 "on a GPU need no `with`")
        self.name = name

    def __enter__(self):
        _library.device(self.name)
        _names.set((*_names.get(), self.name))
        return self

    def __exit__(self, *_):
        _names.set(_names.get()[:-1])


def current():
    """The name of the simulated device in use, or None."""
    return _names.get()[-1] if _names.get() else None


def required(argument):
    """The name of the simulated device in use, or an error: `argument` lies in CPU memory."""
    name = current()
    if name is None:
        raise errors.Unavailable(
            f'{argument} is in CPU memory: move it to a GPU with .to("cuda"), or call inside `with '
            'jfa.simulate("sim:sm_100a"):`, which runs the kernels on a simulated GPU', argument=argument, value="cpu")
    return name
