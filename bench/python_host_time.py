"""What one small attention costs the host from Python: jfa beside PyTorch's varlen_attn and flash-attn.

    python3 bench/python_host_time.py --json host.json   # with the package jfa installed, on a GPU machine

The device is kept busy, so that a call only enqueues; what the device needs is not in the times. Medians of rounds in
turns, with the quartiles. Packages that are not there are named.
"""

import argparse
import json
import platform
import time

import torch

import jfa
import jfa.compat.flash_attn

LENGTHS = [64, 17, 128, 40]
HEADS, HEAD_DIM = 4, 128
CALLS = 100  # a round: as many calls as fit before the queue is full
SPIN_CYCLES = 60_000_000


def inputs(needs_grad):
    torch.manual_seed(1)
    offsets = jfa.offsets_of(LENGTHS).int().cuda()
    tensors = [torch.randn(sum(LENGTHS), HEADS, HEAD_DIM, device="cuda", dtype=torch.bfloat16, requires_grad=needs_grad)
               for _ in range(3)]
    return *tensors, offsets, offsets


def others():
    """(name, function of the five inputs) of what is installed."""
    longest = max(LENGTHS)
    found = []
    try:
        from torch.nn.attention.varlen import varlen_attn

        found.append(("varlen_attn", lambda *call: varlen_attn(*call, longest, longest)))
    except ImportError as error:
        print(f"varlen_attn: {error}")
    for name, module in (("flash_attn", "flash_attn"), ("flash_attn_3", "flash_attn_interface")):
        try:
            function = __import__(module).flash_attn_varlen_func
        except (ImportError, AttributeError) as error:
            print(f"{name}: {error}")
        else:
            found.append((name, lambda *call, function=function: function(*call, longest, longest)))
    return found


def cases():
    """name: (inputs, function that is timed)."""
    plain, recorded = inputs(False), inputs(True)
    table = {
        "jfa.attention": (plain, jfa.attention),
        "jfa.attention, autograd": (recorded, jfa.attention),
        "jfa operator": (plain, torch.ops.jfa.attention),
        "jfa operator, autograd": (recorded, torch.ops.jfa.attention),
        "jfa.compat.flash_attn, autograd": (
            recorded, lambda *call: jfa.compat.flash_attn.flash_attn_varlen_func(*call, 128, 128)),
    }
    for name, function in others():
        table[name] = plain, function
        table[f"{name}, autograd"] = recorded, function
    output = jfa.attention(*recorded)
    grad = torch.randn_like(output)
    table["jfa backward"] = recorded, lambda *call: torch.autograd.grad(output, call[:3], grad, retain_graph=True)
    return table


def round_us(function, arguments):
    torch.cuda.synchronize()
    torch.cuda._sleep(SPIN_CYCLES)
    begin = time.perf_counter()
    for _ in range(CALLS):
        function(*arguments)
    return (time.perf_counter() - begin) / CALLS * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--json", help="where to write the numbers")
    options = parser.parse_args()
    table = cases()
    times = {name: [] for name in table}
    for index in range(options.rounds + 3):
        for name, (arguments, function) in table.items():
            microseconds = round_us(function, arguments)
            if index >= 3:
                times[name].append(microseconds)
    jfa.synchronize()
    report = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "python": platform.python_version(),
              "jfa": jfa.version(), "rounds": options.rounds, "us": {}}
    for name, values in times.items():
        values.sort()
        quarter = len(values) // 4
        low, median, high = values[quarter], values[len(values) // 2], values[-1 - quarter]
        report["us"][name] = {"lower_quartile": low, "median": median, "upper_quartile": high}
        print(f"{name:34s} {median:7.1f} µs  ({low:.1f} … {high:.1f})")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
