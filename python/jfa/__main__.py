"""python -m jfa …: the jfa command that comes with the package, e.g. `python -m jfa doctor`."""

import os
import sys

from . import _command, errors


def main():
    try:
        file = str(_command.path())
    except errors.Unavailable as error:
        print(f"jfa: {error}", file=sys.stderr)
        sys.exit(2)
    os.execve(file, [file, *sys.argv[1:]], _command.environment())


if __name__ == "__main__":
    main()
