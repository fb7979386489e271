#!/usr/bin/env python3
"""The machine code of the kernels benchmark's configurations, as hashes that two builds can be compared by.

    kernel_code.py dump --jfa build/release/tools/jfa -o before.json     # of kernels.json, both targets
    kernel_code.py compare before.json after.json                        # exit status 1 if anything differs

A hash is of one entry's instructions, the .text section of its cubin: line information, names and what the
driver is told beside them are not in it. Registers are noted too. Needs NVRTC but no GPU; what the kernel
cache has is not compiled again, so give each NVRTC a cache of its own (JFA_CACHE_DIR) or none.
"""

import argparse
import concurrent.futures
import hashlib
import itertools
import json
import os
import pathlib
import re
import struct
import subprocess
import sys

FIELDS = {"pass": "forward", "dtype": "bf16", "window": None, "broadcast_q": False, "groups": 1}


def configurations(sweeps, targets):
    """Command-line options of `jfa emit` by a name for people, of every combination in a sweep file."""
    for target, sweep in itertools.product(targets, sweeps):
        fields = {**FIELDS, **sweep}
        values = [value if isinstance(value, list) else [value] for value in fields.values()]
        for combination in itertools.product(*values):
            one = dict(zip(fields, combination))
            options = ["--target", target, "--pass", one["pass"], "--dtype", one["dtype"],
                       "--head-dim", str(one["head_dim"]), "--groups", str(one["groups"])]
            name = f"{one['pass']}-{one['dtype']}-d{one['head_dim']}"
            if one["window"] is not None:
                options += ["--window", str(one["window"])]
                name += f"-w{one['window']}"
            if one["broadcast_q"]:
                options.append("--broadcast-q")
                name += "-pma"
            if one["groups"] != 1:
                name += f"-g{one['groups']}"
            yield f"{name}-{target}", options


def sections_of(cubin):
    """(name, bytes, link) of an ELF file's sections, in order."""
    if cubin[:4] != b"\x7fELF":
        raise ValueError("not a cubin")
    table, = struct.unpack_from("<Q", cubin, 0x28)
    header_bytes, count, names_index = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQI", cubin, table + i * header_bytes) for i in range(count)]
    names_begin = headers[names_index][4]
    for name_offset, _, _, _, offset, size, link in headers:
        begin = names_begin + name_offset
        yield cubin[begin:cubin.index(b"\0", begin)].decode(), cubin[offset:offset + size], link


def registers_of(sections):
    """Registers a thread by entry, of .nv.info: attributes of a format, a kind and, in format 4, a size."""
    REGISTER_COUNT = 0x2F
    _, symbols, link = next(it for it in sections if it[0] == ".symtab")
    strings = sections[link][1]
    info = next(it[1] for it in sections if it[0] == ".nv.info")
    registers, at = {}, 0
    while at < len(info):
        form, kind, size = struct.unpack_from("<BBH", info, at)
        if (form, kind) == (4, REGISTER_COUNT):
            symbol, count = struct.unpack_from("<II", info, at + 4)
            begin, = struct.unpack_from("<I", symbols, 24 * symbol)
            registers[strings[begin:strings.index(b"\0", begin)].decode()] = count
        at += 4 + (size if form == 4 else 0)
    return registers


def code_of(cubin):
    """{entry: {"registers": …, "bytes": …, "sha256": …}} of an ELF file's .text.* sections."""
    sections = list(sections_of(cubin))
    registers = registers_of(sections)
    code = {name.removeprefix(".text."): text for name, text, _ in sections if name.startswith(".text.")}
    return {entry: {"registers": registers[entry], "bytes": len(text),
                    "sha256": hashlib.sha256(text).hexdigest()} for entry, text in code.items()}


def dump(options):
    sweeps = json.loads(options.sweep.read_text())
    chosen = [(name, arguments) for name, arguments in configurations(sweeps, options.target)
              if re.search(options.only, name)]
    if not chosen:
        sys.exit(f"no configuration of {options.sweep} matches {options.only!r}")

    def compile_one(item):
        name, arguments = item
        done = subprocess.run([options.jfa, "emit", "--format", "cubin", *arguments], capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(f"{name}: {done.stderr.decode(errors='replace').strip()}")
        return name, code_of(done.stdout)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        kernels = dict(pool.map(compile_one, chosen))
    text = json.dumps(kernels, indent=1) + "\n"
    options.output.write_text(text)
    print(f"{options.output}: {len(kernels)} configurations, {sum(map(len, kernels.values()))} entries")


def compare(options):
    before, after = (json.loads(path.read_text()) for path in (options.before, options.after))
    common = [name for name in before if name in after]
    differences = 0
    for name in common:
        for entry in sorted(before[name].keys() | after[name].keys()):
            left, right = before[name].get(entry), after[name].get(entry)
            if left == right:
                continue
            differences += 1
            short = ["absent" if it is None else f"{it['bytes']} bytes, {it['registers']} registers, "
                     f"{it['sha256'][:12]}" for it in (left, right)]
            print(f"{name} {entry}: {short[0]} -> {short[1]}")
    for name in sorted(before.keys() ^ after.keys()):
        print(f"{name}: only in {options.before if name in before else options.after}")
    print(f"{len(common)} configurations in both, {differences} entries differ")
    return 1 if differences or not common else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("dump", help="compile, and write the hashes")
    command.add_argument("--jfa", required=True, help="the jfa command of the build")
    command.add_argument("-o", "--output", type=pathlib.Path, required=True)
    command.add_argument("--sweep", type=pathlib.Path,
                         default=pathlib.Path(__file__).with_name("kernels.json"))
    command.add_argument("--target", action="append", help="default: sm_100f and sm_90a")
    command.add_argument("--only", default="", help="regular expression: configurations whose name matches")
    command.add_argument("--jobs", type=int, default=os.cpu_count())
    command.set_defaults(run=dump)
    command = commands.add_parser("compare", help="say what differs in the configurations that both files have")
    command.add_argument("before", type=pathlib.Path)
    command.add_argument("after", type=pathlib.Path)
    command.set_defaults(run=compare)
    options = parser.parse_args()
    if options.run is dump and not options.target:
        options.target = ["sm_100f", "sm_90a"]
    sys.exit(options.run(options))


if __name__ == "__main__":
    main()
