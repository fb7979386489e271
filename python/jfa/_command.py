"""The jfa command: a program inside the package."""

import os
import pathlib
import shutil
import sys

from . import errors


def path():
    """The program's file: JFA_COMMAND, or the one inside the package."""
    given = os.environ.get("JFA_COMMAND") or str(pathlib.Path(__file__).resolve().parent / "bin" / "jfa")
    found = shutil.which(given)  # a name without a slash is searched for in PATH
    if not found:
        raise errors.Unavailable(f"{given} is no program: install the package with `pip install ./python`, or set "
                                 "JFA_COMMAND to a built jfa", argument="JFA_COMMAND", value=given)
    return pathlib.Path(found).absolute()


def environment():
    """The environment to start it in: it looks for NVRTC's wheel among this interpreter's packages, too."""
    return {"VIRTUAL_ENV": sys.prefix} | os.environ
