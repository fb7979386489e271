"""The jfa command: a program inside the package."""

import os
import pathlib
import sys

from . import errors


def path():
    """The program's file: JFA_COMMAND, or the one inside the package."""
    given = os.environ.get("JFA_COMMAND")
    file = pathlib.Path(given) if given else pathlib.Path(__file__).resolve().parent / "bin" / "jfa"
    if not os.access(file, os.X_OK):
        raise errors.Unavailable(f"{file} is no program: install the package with `pip install ./python`, or set "
                                 "JFA_COMMAND to a built jfa", argument="JFA_COMMAND", value=str(file))
    return file


def environment():
    """The environment to start it in: it looks for NVRTC's wheel among this interpreter's packages, too."""
    return {"VIRTUAL_ENV": sys.prefix} | os.environ
