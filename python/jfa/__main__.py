"""python -m jfa …: the jfa command that comes with the package, e.g. `python -m jfa doctor`."""

import os
import sys

from . import _command


def main():
    file = str(_command.path())
    os.execve(file, [file, *sys.argv[1:]], _command.environment())


if __name__ == "__main__":
    main()
