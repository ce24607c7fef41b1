#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compile time is a feature: what compiling one training program may cost, and that the cost does not grow.

  check_compile.py cost SOURCE -- COMMAND...     seconds and memory of one optimised compilation, against the limits
  check_compile.py growth SOURCE TABLE -- COMMAND...   clang's counts of template instantiations: with 96 layers, 64
                                                 micro-batches or 16 times the ranks they stay those of the small program,
                                                 and that is at most 3 % above what TABLE (bench/compile/table.json) has
                                                 for the same compiler

Seconds are processor time, so that a busy machine matters little; counts are exact.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile

SECONDS = 20.0
MIB = 1536
GROWTH = 0.01  # the same templates; room for a table or two whose size is in its type
MORE_THAN_RECORDED = 0.03


def run(command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"does not compile: {' '.join(command)}\n{result.stderr[:4000]}")
    return result.stdout


def cost(source, command, folder):
    # What else a machine does makes a compilation slower, never quicker: the quickest of three is nearest to its cost.
    best = float("inf")
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(command + ["-O2", "-c", source, "-o", os.path.join(folder, "program.o")])
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime)
        if best <= SECONDS:
            break
    mib = used.ru_maxrss / 1024
    print(f"one training program at -O2: {best:.1f} s of processor time (limit {SECONDS}), {mib:.0f} MiB (limit {MIB})")
    if best > SECONDS or mib > MIB:
        sys.exit("over the limit: find what grew with clang's -ftime-trace")


def instantiations(source, command, folder, defines):
    out = os.path.join(folder, "program.o")
    run(command + defines + ["-O0", "-c", "-emit-llvm", source, "-o", out, "-ftime-trace", "-ftime-trace-granularity=0"])
    with open(os.path.join(folder, "program.json"), encoding="utf-8") as file:
        return sum(event["name"].startswith("Instantiate") for event in json.load(file)["traceEvents"])


def version(command):
    return run(command[:1] + ["--version"]).splitlines()[0]


def growth(source, command, folder, table):
    larger = {"96 layers": "-DHEDDLE_LAYERS=96", "64 micro-batches": "-DHEDDLE_MICRO_BATCHES=64",
              "16 times the ranks": "-DHEDDLE_DATA_RANKS=32"}
    small = instantiations(source, command, folder, [])
    all_larger = instantiations(source, command, folder, list(larger.values()))
    print(f"{small} instantiations; with {', '.join(larger)}: {all_larger}")
    if all_larger > small * (1 + GROWTH):
        alone = {name: instantiations(source, command, folder, [define]) for name, define in larger.items()}
        sys.exit("grows with size: " + ", ".join(f"{count} with {name}" for name, count in alone.items()))
    with open(table, encoding="utf-8") as file:
        recorded = json.load(file)
    if version(command) != recorded["clang"]:
        print(f"not compared with the table, which is of {recorded['clang']}")
        return
    before = next(row["instantiations"] for row in recorded["programs"] if row["program"] == recorded["gate"])
    print(f"recorded: {before}")
    if small > before * (1 + MORE_THAN_RECORDED):
        sys.exit(f"more than {MORE_THAN_RECORDED:.0%} above the recorded {before}: make it less, or say in the change why it "
                 "is worth it and record anew with bench/compile/measure.py")


def main():
    if len(sys.argv) < 5 or sys.argv[1] not in ("cost", "growth") or "--" not in sys.argv:
        sys.exit(__doc__)
    split = sys.argv.index("--")
    mode, source, *table = sys.argv[1:split]
    with tempfile.TemporaryDirectory() as folder:
        if mode == "cost":
            cost(source, sys.argv[split + 1:], folder)
        else:
            growth(source, sys.argv[split + 1:], folder, *table)


if __name__ == "__main__":
    main()
