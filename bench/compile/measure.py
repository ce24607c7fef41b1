#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs to compile a training program, by plan: writes table.json and table.md beside this file.

  measure.py [--gcc g++] [--clang clang++]

Seconds are processor time of one `-O2` compilation for this machine; memory is the compiler's peak; instantiations are
clang's count. tests/compile compares the last with the table.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
root = here.parent.parent
sys.path.insert(0, str(root / "tests" / "compile"))
from check_compile import instantiations, version  # noqa: E402  (the test's own way of counting)

PROGRAMS = {
    "one rank": {"DATA_RANKS": 1, "STAGES": 1, "TENSOR_RANKS": 1, "ZERO": 0},
    "data parallel, 2": {"STAGES": 1, "TENSOR_RANKS": 1, "ZERO": 0},
    "data parallel, 2, ZeRO-3": {"STAGES": 1, "TENSOR_RANKS": 1},
    "3D, 2 x 2 x 2": {"ZERO": 0},
    "3D, 2 x 2 x 2, ZeRO-3": {},
    "the same, 96 layers": {"LAYERS": 96},
    "the same, 64 micro-batches": {"MICRO_BATCHES": 64},
    "the same, 16 times the ranks": {"DATA_RANKS": 32},
}
GATE = "3D, 2 x 2 x 2, ZeRO-3"


PROBE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def cost(command):
    """Seconds of processor time and peak MiB of a command."""
    run = subprocess.run([sys.executable, "-c", PROBE, *command], capture_output=True, text=True, check=True)
    seconds, kib = run.stdout.split()
    return round(float(seconds), 1), int(kib) // 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gcc", default="g++")
    parser.add_argument("--clang", default="clang++")
    chosen = parser.parse_args()
    eigen = subprocess.run(["pkg-config", "--cflags-only-I", "eigen3"], capture_output=True, text=True, check=True).stdout
    flags = ["-std=c++20", f"-I{root / 'include'}", *re.sub(r"-I", "-isystem", eigen).split()]
    source = str(root / "tests" / "compile" / "program.cpp")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, sizes in PROGRAMS.items():
            defines = [f"-DHEDDLE_{key}={value}" for key, value in sizes.items()]
            out = os.path.join(folder, "program.o")
            seconds, mib = cost([chosen.gcc, *flags, "-march=native", "-mtune=generic", "-O2", *defines, "-c", source, "-o", out])
            count = instantiations(source, [chosen.clang, *flags], folder, defines)
            rows.append({"program": name, "seconds": seconds, "mib": mib, "instantiations": count})
            print(rows[-1], flush=True)
    table = {"gcc": version([chosen.gcc]), "clang": version([chosen.clang]), "gate": GATE, "programs": rows}
    (here / "table.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    lines = ["# Compile time", "",
             "One program that trains `tiny` (4 layers, 4 heads, width 128, context 64), by plan: `measure.py`.", "",
             f"{table['gcc']}, -O2, processor time and peak memory; {table['clang']}, template instantiations.", "",
             "| plan | seconds | MiB | instantiations |", "|---|---|---|---|"]
    lines += [f"| {row['program']} | {row['seconds']} | {row['mib']} | {row['instantiations']} |" for row in rows]
    (here / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
