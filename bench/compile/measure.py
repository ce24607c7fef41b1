#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs to compile a training program, by plan: writes table.json and table.md beside this file.

  measure.py [--gcc g++] [--clang clang++] [--rounds 3] [--out FOLDER]

Seconds are processor time of an `-O2` compilation for this machine, the quickest of --rounds, in each of which all programs
and the yardstick of compile.cost take their turn; then the compiler's peak of memory, and what its front end handed out in all, which other work on the machine
does not change; instantiations are clang's count. tests/compile compares the last with the table.
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
from check_compile import compiled, handed_out, instantiations, limit, version, yardstick  # noqa: E402  (the test's own way)

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


def markdown(table):
    yield "# Compile time\n"
    yield "One program that trains `tiny` (4 layers, 4 heads, width 128, context 64), by plan: `measure.py`.\n"
    yield f"{table['gcc']}, -O2: processor time, the quickest of {table['rounds']} in turn; memory at the most, and what the front"
    yield f"end handed out in all (the same in every run); {table['clang']}: template instantiations."
    yield f"Eigen/Dense alone took {table['yardstick']} s then, so '{table['gate']}' may take {table['limit']} s.\n"
    yield "| plan | seconds | MiB | MB handed out | instantiations |"
    yield "|---|---:|---:|---:|---:|"
    for row in table["programs"]:
        yield f"| {row['program']} | {row['seconds']} | {row['mib']} | {row['handed_out_mb']} | {row['instantiations']} |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gcc", default="g++")
    parser.add_argument("--clang", default="clang++")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, default=here)
    chosen = parser.parse_args()
    eigen = subprocess.run(["pkg-config", "--cflags-only-I", "eigen3"], capture_output=True, text=True, check=True).stdout
    flags = ["-std=c++20", f"-I{root / 'include'}", *re.sub(r"-I", "-isystem", eigen).split()]
    source = str(root / "tests" / "compile" / "program.cpp")
    defines = {name: [f"-DHEDDLE_{key}={value}" for key, value in sizes.items()] for name, sizes in PROGRAMS.items()}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        optimising = [chosen.gcc, *flags, "-march=native", "-mtune=generic"]
        best, unit = {}, float("inf")
        for _ in range(chosen.rounds):
            unit = min(unit, yardstick(optimising, folder))
            for name in PROGRAMS:
                figures = compiled(source, optimising, folder, [*defines[name], "-O2"])
                best[name] = tuple(map(min, best.get(name, figures), figures))
        for name, (seconds, mib, _) in best.items():
            handed = handed_out(source, optimising, defines[name])
            count = instantiations(source, [chosen.clang, *flags], folder, defines[name])
            rows.append({"program": name, "seconds": round(seconds, 1), "mib": round(mib), "handed_out_mb": round(handed),
                         "instantiations": count})
            print(rows[-1], flush=True)
    table = {"gcc": version([chosen.gcc]), "clang": version([chosen.clang]), "rounds": chosen.rounds, "yardstick": round(unit, 2),
             "limit": round(limit(unit), 1), "gate": GATE, "programs": rows}
    (chosen.out / "table.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    (chosen.out / "table.md").write_text("\n".join(markdown(table)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
