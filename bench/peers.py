"""jfa beside what else there is: the same data, one run, results compared.

    python3 bench/peers.py --json peers.json   # with the package jfa installed

Every time is a median on the device: the L2 cache is flushed before each run, and a short spin on the device hides
what the host needs to enqueue the work, so that no library pays for its Python. Compilation is not counted.
"""

import argparse
import datetime
import gc
import json
import os
import subprocess
import sys

import torch

import jfa
import libraries
import ratios
import shapes

BASELINE = libraries.Varlen.name
WARM_UPS = 3
FLUSH_BYTES = 96 << 20
SPIN_CYCLES = 400_000  # about 0.2 ms


def measure_ms(run, repeats):
    """Times of `repeats` runs, ascending."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times_ms = []
    for i in range(WARM_UPS + repeats):
        flush.zero_()
        torch.cuda._sleep(SPIN_CYCLES)
        start.record()
        run()
        end.record()
        end.synchronize()
        if i >= WARM_UPS:
            times_ms.append(start.elapsed_time(end))
    return sorted(times_ms)


def quantile(ascending, part):
    position = part * (len(ascending) - 1)
    below = int(position)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (position - below) * (ascending[above] - ascending[below])


def measure_limits(repeats):
    """What the rates are compared with: copies within the device, and a large matrix product."""
    source = torch.empty(1 << 30, dtype=torch.int8, device="cuda").random_()
    destination = torch.empty_like(source)
    copy_ms = quantile(measure_ms(lambda: destination.copy_(source), repeats), 0.5)
    left, right = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product_ms = quantile(measure_ms(lambda: left @ right, repeats), 0.5)
    return {"copy_gb_per_s": 2 * source.numel() / copy_ms / 1e6, "matmul_tflops": 2 * 8192**3 / product_ms / 1e9}


def describe(problem, direction, times_ms, limits):
    median = quantile(times_ms, 0.5)
    tflops = problem.flops(direction) / median / 1e9
    gb_per_s = problem.bytes(direction) / median / 1e6
    return {
        "ms": {"median": median, "min": times_ms[0], "lower_quartile": quantile(times_ms, 0.25),
               "upper_quartile": quantile(times_ms, 0.75), "max": times_ms[-1]},
        "tflops": tflops, "gb_per_s": gb_per_s, "share_of_copy_bandwidth": gb_per_s / limits["copy_gb_per_s"],
        "share_of_matmul": tflops / limits["matmul_tflops"],
    }


def difference(results, expected):
    """Largest absolute difference of each tensor, beside the largest magnitude there is."""
    names = ["output"] if len(results) == 1 else ["query_grad", "key_grad", "value_grad"]
    report = {}
    for name, result, other in zip(names, results, expected):
        result, other = result.float(), other.float()
        report[name] = {"max_abs_difference": (result - other).abs().max().item(),
                        "max_abs": other.abs().max().item()}
    return report


def one_line(error):
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def run_library(library, data, direction, options, limits, expected):
    """The library's entry of the report, and its results if they are wanted for comparison."""
    backward = direction == "backward"
    try:
        with torch.enable_grad() if backward else torch.no_grad():
            attention = library(data, backward)
            results = attention.results(backward)
            entry = {} if expected is None else {"difference": difference(results, expected)}
            if expected is not None:
                results = None
            run = attention.backward if backward else attention.forward
            entry |= describe(data.problem, direction, measure_ms(run, options.repeats), limits)
        return entry, results
    except Exception as error:  # whatever goes wrong in one library is reported, and the others go on
        return {"skipped": one_line(error)}, None


def print_entry(name, entry):
    if "skipped" in entry:
        print(f"    {name:15s} skipped: {entry['skipped']}", flush=True)
        return
    ms = entry["ms"]
    ratio = f"  x{entry['ratio']:.2f}" if "ratio" in entry else ""
    differences = ", ".join(f"{tensor} {value['max_abs_difference']:.1e} of {value['max_abs']:.1e}"
                            for tensor, value in entry.get("difference", {}).items())
    print(f"    {name:15s} {ms['median']:8.3f} ms ({ms['min']:.3f} … {ms['max']:.3f}) {entry['tflops']:6.0f} TFLOP/s "
          f"{entry['gb_per_s']:6.0f} GB/s ({entry['share_of_copy_bandwidth']:4.0%} of copy){ratio}"
          f"{'  differs by ' + differences if differences else ''}", flush=True)


def run_problem(problem, direction, options, limits):
    print(f"{problem.name} {direction}: {problem.output_rows} query rows, {problem.key_rows} key rows", flush=True)
    data = libraries.Data(problem, "cuda")
    entries, expected = {}, None
    for library in libraries.ALL:
        if library.name not in options.libraries:
            continue
        entry, results = run_library(library, data, direction, options, limits, expected)
        if library.name == BASELINE:
            expected = results
        elif "ms" in entry and "ms" in entries.get(BASELINE, {}):
            entry["ratio"] = entries[BASELINE]["ms"]["median"] / entry["ms"]["median"]
        entries[library.name] = entry
        print_entry(library.name, entry)
        gc.collect()
        torch.cuda.empty_cache()
    return {"name": problem.name, "query_rows": problem.output_rows, "key_rows": problem.key_rows,
            "pairs": problem.pairs, "flops": problem.flops(direction), "bytes": problem.bytes(direction),
            "libraries": entries}


def driver_version():
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError) as error:
        return f"unknown ({one_line(error)})"


def parse_options():
    here = os.path.dirname(os.path.abspath(__file__))
    names = [library.name for library in libraries.ALL]
    parser = argparse.ArgumentParser(description="Compare jfa with other attentions on a GPU.")
    parser.add_argument("--shapes", default=os.path.join(here, "shapes.json"), help="what to measure")
    parser.add_argument("--only", help="names of shapes, separated by commas")
    parser.add_argument("--libraries", default=",".join(names), help=f"of {', '.join(names)}")
    parser.add_argument("--passes", default="forward,backward", help="forward, backward or both")
    parser.add_argument("--repeats", type=int, default=15, help="runs to take the median of")
    parser.add_argument("--json", help="where to write all numbers")
    options = parser.parse_args()
    for field, known in (("libraries", names), ("passes", ["forward", "backward"])):
        values = getattr(options, field).split(",")
        for value in values:
            if value not in known:
                parser.error(f"--{field}: '{value}' is none of {', '.join(known)}")
        setattr(options, field, values)
    return options


def choose(problems, only):
    if not only:
        return problems
    by_name = {problem.name: problem for problem in problems}
    missing = [name for name in only.split(",") if name not in by_name]
    if missing:
        sys.exit(f"no shape is named {', '.join(missing)}")
    return [by_name[name] for name in only.split(",")]


def main():
    options = parse_options()
    problems = choose(shapes.load(options.shapes), options.only)
    report = {"date": datetime.date.today().isoformat(), "gpu": torch.cuda.get_device_name(),
              "driver": driver_version(), "cuda": torch.version.cuda, "torch": torch.__version__,
              "repeats": options.repeats, "baseline": BASELINE}
    if libraries.Jfa.name in options.libraries:
        report["jfa"] = jfa.version()
    report |= measure_limits(options.repeats)
    print(json.dumps(report), flush=True)
    report["passes"] = {}
    for direction in options.passes:
        rows = []
        for problem in problems:
            rows.append(run_problem(problem, direction, options, report))
            report["passes"][direction] = {"shapes": rows}
            if options.json:  # after every shape: a run that is cut short has not been for nothing
                with open(options.json, "w") as file:
                    json.dump(report, file, indent=1)
        print(f"{direction}: geometric means of the ratios to {BASELINE}: {ratios.describe_means(rows)}", flush=True)


if __name__ == "__main__":
    main()
