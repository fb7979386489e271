"""The package as a file on a disk: importing, the command, versions, kernels ahead of their call."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import jfa
from jfa import _command, _library, _version

ROOT = pathlib.Path(__file__).resolve().parents[2]


WITHOUT_TORCH = ("import importlib.util, sys\nfind = importlib.util.find_spec\n"
                 "importlib.util.find_spec = lambda name, *rest: None if name == 'torch' else find(name, *rest)\n")


def python(code, *arguments, **environment):
    """Runs code in a fresh interpreter that sees the same package; (exit status, output and errors)."""
    places = [str(pathlib.Path(jfa.__file__).parents[1]), *os.environ.get("PYTHONPATH", "").split(":")]
    full = os.environ | {"PYTHONPATH": ":".join(places)} | environment
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=full, capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stdout + done.stderr


def test_versions_agree():
    header = (ROOT / "include/jfa/version.h").read_text()
    declared = ".".join(re.findall(r"#define JFA_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))
    assert declared == _version.VERSION == jfa.__version__ == jfa.version()


@pytest.mark.parametrize("first, second", [("jfa", "torch"), ("torch", "jfa")])
def test_import_order(first, second):
    """bug-pool 126: the package binds to no ABI of PyTorch's, so neither order nor version matters."""
    status, text = python(f"import importlib.util, sys\nif importlib.util.find_spec('torch') is None: sys.exit()\n"
                          f"import {first}, {second}\nprint(jfa.attention, torch.ops.jfa.attention)")
    assert status == 0, text


@pytest.mark.parametrize("version", ["1.13.1", None])
def test_without_a_fit_torch(version, tmp_path):
    """bug-pool 126: a PyTorch that is too old, or none, is one line with both versions; the rest works."""
    code = WITHOUT_TORCH if version is None else "import sys\n"
    if version:
        (tmp_path / "torch.py").write_text(f"__version__ = '{version}'\n")
        code += f"sys.path.insert(0, {str(tmp_path)!r})\n"
    code += "import jfa\nprint(jfa.version())\njfa.attention"
    status, text = python(code)
    lines = text.strip().splitlines()
    assert status == 1 and lines[0] == jfa.__version__
    assert lines[-1].startswith("ImportError: jfa.attention needs PyTorch")
    if version:
        assert version in lines[-1] and jfa.__version__ in lines[-1] and "2.6" in lines[-1]


def test_doctor():
    status = subprocess.run([sys.executable, "-m", "jfa", "doctor"], capture_output=True, text=True, check=False)
    assert status.returncode == 0 and "NVRTC" in status.stdout, status.stdout + status.stderr


def test_a_command_that_is_not_there():
    done = subprocess.run([sys.executable, "-m", "jfa", "doctor"], capture_output=True, text=True, check=False,
                          env=os.environ | {"JFA_COMMAND": "/no/such/jfa"})
    assert done.returncode == 2 and done.stderr.startswith("jfa: /no/such/jfa is no program"), done.stderr


def test_exported_names():
    """libjfa.so exports the C interface and nothing else."""
    if not shutil.which("nm"):
        pytest.skip("nm of binutils is needed")
    listed = subprocess.run(["nm", "-D", "--defined-only", str(_library.path())], capture_output=True, text=True,
                            check=True)
    names = {line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()}
    assert "jfa_forward" in names and all(name.startswith("jfa_") for name in names), names


def test_a_library_that_is_not_there():
    status, text = python(WITHOUT_TORCH + "import jfa; jfa.version()", JFA_LIBRARY="/no/such/libjfa.so")
    assert status == 1 and "/no/such/libjfa.so cannot be loaded" in text


def test_a_library_of_another_version():
    status, text = python(WITHOUT_TORCH + "import jfa; jfa.version()", JFA_LIBRARY="libc.so.6")
    assert status == 1 and "libc.so.6 has no jfa_device_open: it is another version" in text


def test_files_named_from_the_current_folder(tmp_path):
    """With a slash JFA_LIBRARY and JFA_COMMAND are files from here, also where a bare name would be searched for."""
    (tmp_path / "libjfa.so").symlink_to(_library.path())
    (tmp_path / "jfa").symlink_to(_command.path())
    status, text = python(WITHOUT_TORCH + "import os; os.chdir(sys.argv[1])\nimport jfa\nfrom jfa import _command\n"
                          "print(jfa.version(), _command.path())\njfa.precompile('a', target='sm_100f', head_dim=12)",
                          str(tmp_path), JFA_LIBRARY="./libjfa.so", JFA_COMMAND="./jfa")
    assert text.startswith(f"{jfa.__version__} {tmp_path / 'jfa'}\n"), text
    assert status == 1 and "jfa.errors.InvalidArgument" in text and "12" in text, text


def test_a_command_in_the_path(tmp_path, monkeypatch):
    (tmp_path / "jfa-of-the-path").symlink_to(_command.path())
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("JFA_COMMAND", "jfa-of-the-path")
    assert _command.path() == tmp_path / "jfa-of-the-path"


def test_numpy_needs_no_import_of_its_own():
    status, text = python(WITHOUT_TORCH + "import jfa; print('numpy' in sys.modules, jfa.numpy.attention)")
    assert status == 0 and text.startswith("False <function attention"), text


def test_the_command_looks_among_this_interpreters_packages(monkeypatch):
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert _command.environment()["VIRTUAL_ENV"] == sys.prefix
    monkeypatch.setenv("VIRTUAL_ENV", "/elsewhere")
    assert _command.environment()["VIRTUAL_ENV"] == "/elsewhere"


def test_a_bundle_serves_what_was_precompiled(tmp_path):
    """precompile(), then a process that must not compile and has no cache."""
    bundle = tmp_path / "kernels.jfab"
    jfa.precompile(bundle, target="compute_100f", head_dim=16, passes="forward", dtype="fp16")
    code = WITHOUT_TORCH + ("import numpy, jfa, jfa.numpy\njfa.load_bundle(sys.argv[1])\n"
            "x = numpy.ones((3, 2, 16), numpy.float16)\no = numpy.array([0, 3])\n"
            "print(jfa.numpy.attention(x, x, x, o, o, device='sim:sm_100a')[0].min())\n"
            "try: jfa.load_bundle(sys.argv[1])\nexcept jfa.InvalidArgument as e: print(e)\n")
    status, text = python(code, str(bundle), JFA_CACHE="off", JFA_COMPILE="never")
    assert status == 0 and text.startswith("1.0\nfile is ") and "before the first call" in text, text


def test_what_cannot_be_precompiled(tmp_path):
    with pytest.raises(jfa.InvalidArgument, match="dtype is 'fp64'"):
        jfa.precompile(target="sm_100f", head_dim=16, dtype="fp64")
    with pytest.raises(jfa.Error, match="12"):
        jfa.precompile(tmp_path / "kernels.jfab", target="sm_100f", head_dim=12)
    assert not (tmp_path / "kernels.jfab").exists()
    with pytest.raises(jfa.InvalidArgument, match="no-bundle"):
        jfa.load_bundle(tmp_path / "no-bundle")


def test_prepare(device_name):
    jfa.prepare(device_name, head_dim=16, dtype="fp16")
    with pytest.raises(jfa.Error, match="12"):
        jfa.prepare(device_name, head_dim=12)
