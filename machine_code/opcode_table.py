#!/usr/bin/env python3
"""Compares the table of opcodes with nvdisasm, over every instruction of some cubins.

    pip install nvidia-cuda-nvdisasm
    nvcc -cubin -arch=sm_100f -o samples.cubin machine_code/opcode_samples.cu   # and for sm_90a
    jfa emit --head-dim 128 --format cubin -o forward.cubin
    machine_code/opcode_table.py --nvdisasm PATH samples.cubin forward.cubin

Prints a row for every opcode that the table lacks, its pipe to be filled in by hand, and what the table calls by
another name; exit status 1 if there is any. opcode_samples.cu has what our kernels may come to use. The lint itself
never runs nvdisasm.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

ANY_FORM = "kAnyForm"
ROW = re.compile(r'\{0x([0-9a-f]{3}), (\w+), "([^"]+)", Pipe::\w+, \d\}')
INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(\S+).*;\s+/\* 0x([0-9a-f]{16}) \*/")


def read_table(path):
    """Name by opcode and form."""
    return {(int(number, 16), form): name for number, form, name in ROW.findall(path.read_text())}


def instructions(nvdisasm, cubin):
    """(opcode, form, nvdisasm's name with its modifiers), of every instruction."""
    listing = subprocess.run([nvdisasm, "-c", "-hex", cubin], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        if found := INSTRUCTION.match(line):
            low = int(found[2], 16)
            yield low & 0x1FF, low >> 9 & 7, found[1]


def agrees(name, disassembled):
    """A table's name is nvdisasm's up to a modifier; * stands for letters."""
    pattern = re.escape(name).replace(r"\*", "[A-Z]*")
    return re.fullmatch(pattern + r"(\..*)?", disassembled) is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cubins", nargs="+")
    parser.add_argument("--nvdisasm", default="nvdisasm", help="its path")
    parser.add_argument("--table", type=pathlib.Path, default=pathlib.Path(__file__).with_name("opcode_table.cpp"))
    options = parser.parse_args()
    table = read_table(options.table)
    missing, wrong, seen = collections.Counter(), collections.Counter(), collections.Counter()
    for cubin in options.cubins:
        for number, form, disassembled in instructions(options.nvdisasm, cubin):
            name = table.get((number, str(form))) or table.get((number, ANY_FORM))
            if name is None:
                missing[number, disassembled.split(".")[0]] += 1
            elif not agrees(name, disassembled):
                wrong[number, form, name, disassembled] += 1
            else:
                seen[number, name] += 1
    for (number, name), count in sorted(missing.items()):
        print(f'{{0x{number:03x}, kAnyForm, "{name}", Pipe::?, 0}},  // {count} times')
    for (number, form, name, disassembled), count in sorted(wrong.items()):
        print(f"0x{number:03x}, form {form}: the table says {name}, nvdisasm {disassembled}, {count} times")
    print(f"{sum(seen.values())} instructions of {len(seen)} opcodes agree; the table has {len(table)} rows")
    return 1 if missing or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
