"""Kernels ahead of their first call: compiled into a cache directory or a bundle, loaded from one."""

import os
import pathlib
import subprocess

from . import _command, _library, errors
from ._structures import BACKWARD, BF16, FORWARD, FP16, pack_configuration
from ._window import to_text, window_of

_PASSES = {"forward": FORWARD, "backward": BACKWARD}
_DTYPES = {"bf16": BF16, "fp16": FP16}


def _texts(values, known=None, name=""):
    values = [values] if values is None or isinstance(values, (str, int)) else list(values)
    for value in values:
        if known is not None and value not in known:
            raise errors.invalid(name, repr(value), f"{', '.join(known)} are known")
    return ["none" if value is None else str(value) for value in values]


def _window_texts(windows):
    return [to_text(window) for window in (windows if isinstance(windows, (list, tuple)) else [windows])]


def precompile(bundle=None, *, target, head_dim, dtype="bf16", passes=("forward", "backward"), window=None,
               broadcast_q=False, groups=1, cache_dir=None):
    """Compiles every combination of these values, on all cores; needs NVRTC, but no GPU.

    target: "sm_100f", "sm_90a", …, or "compute_100f", "compute_90a" for simulated devices; head_dim, dtype ("bf16",
    "fp16"), passes, window and groups (query heads per key head): one value or a list each. A window is None, W, a
    pair (left, right) in a list, or text as the command's --window takes it: "causal", "128:0:bottom_right". The kernels go
    into the cache, or into cache_dir, and, if bundle names a file, into that, for load_bundle(). Raises
    jfa.CompileError if a kernel could not be compiled.
    """
    command = [str(_command.path()), "precompile", "--target", *_texts(target), "--head-dim", *_texts(head_dim),
               "--dtype", *_texts(dtype, _DTYPES, "dtype"), "--pass", *_texts(passes, _PASSES, "passes"),
               "--window", *_window_texts(window), "--groups", *_texts(groups)]
    command += ["--broadcast-q"] if broadcast_q else []
    command += ["--cache-dir", os.fspath(cache_dir)] if cache_dir else []
    command += ["-o", os.fspath(bundle)] if bundle else []
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_command.environment())
    if done.returncode != 0:
        kind = errors.CompileError if done.returncode == 1 else errors.InvalidArgument
        lines = done.stderr.strip().splitlines()
        raise kind(lines[-1] if lines else f"jfa precompile ended with {done.returncode}", done.stdout + done.stderr)


def load_bundle(file):
    """Has kernels be taken from a bundle that precompile() or `jfa precompile -o` wrote; before the first call.

    The process reads its places for kernels once, when it asks for the first one; afterwards this is refused.
    """
    file = pathlib.Path(file).absolute()
    if not file.is_file():
        raise errors.invalid("file", str(file), "there is no such file")
    if ":" in str(file):
        raise errors.invalid("file", str(file), "a path without ':' is wanted")
    if _library.asked_for_kernels():
        raise errors.invalid("file", str(file), "load_bundle() comes before the first call; kernels have been asked "
                             "for in this process already")
    bundles = [part for part in os.environ.get("JFA_BUNDLES", "").split(":") if part]
    os.environ["JFA_BUNDLES"] = ":".join([*bundles, str(file)])


def prepare(device, *, head_dim, dtype="bf16", passes=("forward", "backward"), window=None, causal=False,
            alignment="top_left", broadcast_q=False, groups=1):
    """Compiles and loads kernels ahead of their first call, which cannot be inside a graph's capture.

    device: "cuda:0", a torch.device or a simulated one's name; window, causal and alignment are those of attention();
    the rest is one configuration of precompile().
    """
    name = str(device)
    handle = _library.device("cuda:0" if name == "cuda" else name)
    window = window_of(window, causal, alignment)
    for value in [passes] if isinstance(passes, str) else passes:
        _texts(value, _PASSES, "passes")
        _texts(dtype, _DTYPES, "dtype")
        _library.library().jfa_prepare(handle, pack_configuration(_PASSES[value], _DTYPES[dtype], head_dim, window,
                                                                  groups, broadcast_q))
