#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compile time is a feature: what compiling one training program may cost, and that the cost does not grow.

  check_compile.py cost SOURCE -- COMMAND...     seconds and memory of one optimised compilation, against the limits
  check_compile.py growth SOURCE -- COMMAND...   clang's counts of template instantiations: with 96 layers, 64
                                                 micro-batches or 16 times the ranks they stay those of the small program

Seconds are processor time, so that a busy machine does not matter much; counts are exact.
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


def run(command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"does not compile: {' '.join(command)}\n{result.stderr[:4000]}")


def cost(source, command, folder):
    run(command + ["-O2", "-c", source, "-o", os.path.join(folder, "program.o")])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds, mib = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    print(f"one training program at -O2: {seconds:.1f} s of processor time (limit {SECONDS}), {mib:.0f} MiB (limit {MIB})")
    if seconds > SECONDS or mib > MIB:
        sys.exit("over the limit: find what grew with clang's -ftime-trace")


def instantiations(source, command, folder, defines):
    out = os.path.join(folder, "program.o")
    run(command + defines + ["-O0", "-c", source, "-o", out, "-ftime-trace", "-ftime-trace-granularity=0"])
    with open(os.path.join(folder, "program.json"), encoding="utf-8") as file:
        return sum(event["name"].startswith("Instantiate") for event in json.load(file)["traceEvents"])


def growth(source, command, folder):
    variants = {"small": [], "96 layers": ["-DHEDDLE_LAYERS=96"], "64 micro-batches": ["-DHEDDLE_MICRO_BATCHES=64"],
                "16 times the ranks": ["-DHEDDLE_DATA_RANKS=32"]}
    counts = {}
    for name, defines in variants.items():
        counts[name] = instantiations(source, command, folder, defines)
        print(f"{name}: {counts[name]} instantiations")
    grown = [name for name, count in counts.items() if count > counts["small"] * (1 + GROWTH)]
    if grown:
        sys.exit(f"grows with size: {', '.join(grown)}")


def main():
    mode, source, separator = sys.argv[1:4]
    if mode not in ("cost", "growth") or separator != "--":
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        (cost if mode == "cost" else growth)(source, sys.argv[4:], folder)


if __name__ == "__main__":
    main()
