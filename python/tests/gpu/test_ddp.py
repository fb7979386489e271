"""Data-parallel training through torchrun: two ranks on two GPUs by NCCL, or on one GPU by gloo, and says which."""

import os
import pathlib
import subprocess
import sys

import torch

PROGRAM = pathlib.Path(__file__).with_name("ddp_program.py")


def test_two_ranks_train_like_one(device):
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
                           str(PROGRAM)], capture_output=True, text=True, check=False, timeout=300,
                          env=os.environ | {"PYTHONPATH": ":".join(filter(None, sys.path))})
    print(done.stdout)
    kind = "two GPUs by nccl" if torch.cuda.device_count() > 1 else "one GPU by gloo"
    assert done.returncode == 0 and f"two ranks on {kind}: gradients agree" in done.stdout, done.stdout + done.stderr
