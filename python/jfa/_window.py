"""Windows as the rest of the package hands them on: None, W for W keys on both sides, or (left, right, at_ends).

left, right: a whole number, or None where that side is open; at_ends: whether the ends of queries and keys are aligned,
not their beginnings.
"""

import operator

from . import errors

_ALIGNMENTS = {"top_left": False, "bottom_right": True}
_WANTED = "a whole number is wanted, or (left, right) with None for an open side, or None"
_OPEN = -1  # in an operator's list


def _side(window, side):
    if side is None or type(side) is int:
        return side
    is_tensor = hasattr(side, "requires_grad")
    if isinstance(side, bool) or is_tensor or not hasattr(type(side), "__index__"):
        raise errors.invalid("window", window if is_tensor and window is side else repr(window), _WANTED)
    return operator.index(side)


def window_of(window, causal=False, alignment="top_left"):
    """Of the arguments of jfa.attention()."""
    if (window is None or type(window) is int) and not causal and alignment == "top_left":
        return window
    if alignment not in _ALIGNMENTS:
        raise errors.invalid("alignment", repr(alignment), f"{' or '.join(_ALIGNMENTS)} is wanted")
    if not isinstance(causal, bool) and causal not in (None, 0, 1):
        raise errors.invalid("causal", repr(causal), "True or False is wanted")
    if isinstance(window, (tuple, list)):
        if len(window) != 2:
            raise errors.invalid("window", repr(window), _WANTED)
        left, right = (_side(window, side) for side in window)
    else:
        left = right = _side(window, window)
    return canonical(left, 0 if causal else right, _ALIGNMENTS[alignment])


def canonical(left, right, at_ends):
    if left is None and right is None:
        return None
    return left if left == right and not at_ends else (left, right, at_ends)


def sides(window):
    """(left, right, at_ends) of any window."""
    return window if isinstance(window, tuple) else (window, window, False)


def to_list(window):
    """What an operator takes: None, [W], or [left, right, at_ends] with -1 for an open side."""
    if not isinstance(window, tuple):
        return window if window is None else [window]
    left, right, at_ends = window
    for side in (left, right):
        if side is not None and side < 0:
            raise errors.invalid("window", (left, right), "no side is negative; None leaves one open")
    return [_OPEN if left is None else left, _OPEN if right is None else right, int(at_ends)]


def from_list(window):
    if window is None:
        return None
    if len(window) == 1:
        return window[0]
    if len(window) != 3:
        raise errors.invalid("window", list(window), "[W] or [left, right, at_ends] is wanted")
    left, right = (None if side == _OPEN else side for side in window[:2])
    return canonical(left, right, bool(window[2]))


def to_text(window):
    """What the command's --window takes."""
    if window is None or isinstance(window, (int, str)):
        return "none" if window is None else str(window)
    left, right, at_ends = (*window, False) if len(window) == 2 else window
    text = ":".join("all" if side is None else str(side) for side in (left, right))
    return f"{text}:bottom_right" if at_ends else text
