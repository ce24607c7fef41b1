#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles a CUDA program for some architectures, with warnings as errors, and links it with the CUDA runtime.

  check_link.py NVCC SOURCE ARCHITECTURE,... KERNEL,... [-- FLAG...]

Each kernel must be there for each architecture, by the report of the assembler: a launch whose kernel no compiler pass makes
links all the same, and fails when it runs. None may spill registers.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\d+)'")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


def spilling(report):
    """What of the report's kernels keeps registers in memory: for these architectures, with the tiles that they are launched with."""
    found, name = [], None
    for line in report.splitlines():
        if entry := ENTRY.search(line):
            name = f"{entry[1]} for sm_{entry[2]}"
        elif (spills := SPILLS.search(line)) and name:
            if spilled := int(spills[1]) + int(spills[2]):
                found.append(f"{name} spills {spilled} bytes")
            name = None
    return found


def main(nvcc, source, architectures, kernels, flags):
    codes = [option for one in architectures for option in ("-gencode", f"arch=compute_{one},code=sm_{one}")]
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([nvcc, "-std=c++20", "-Werror", "all-warnings", "-Xptxas", "-v", *codes, *flags, source, "-o",
                              str(pathlib.Path(folder, "program"))], capture_output=True, text=True)
    report = run.stdout + run.stderr
    if run.returncode:
        sys.exit(report)
    made = ENTRY.findall(report)
    missing = [f"{kernel} for sm_{one}" for kernel in kernels for one in architectures
               if not any(re.search(rf"\d{kernel}(?![a-z_])", name) and number == one for name, number in made)]
    if missing:
        sys.exit(f"the program launches, and has not: {', '.join(missing)}; it has {made}")
    if spilled := spilling(report):
        sys.exit("\n".join(spilled) + "\ngive each smaller tiles, or fewer threads")
    if not SPILLS.search(report):
        sys.exit("nvcc's report says of no kernel whether it spills")
    print(f"{len(made)} kernels, compiled and linked, none spills")


if __name__ == "__main__":
    own = sys.argv[1:]
    extra = own[own.index("--") + 1:] if "--" in own else []
    own = own[:own.index("--")] if "--" in own else own
    if len(own) != 4:
        sys.exit(__doc__)
    main(own[0], own[1], own[2].split(","), own[3].split(","), extra)
