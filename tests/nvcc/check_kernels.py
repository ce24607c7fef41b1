#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles every kernel with warnings as errors, and compares what it uses with the checked-in table.

  check_kernels.py NVCC SOURCE TABLE ARCHITECTURE [--update] [-- FLAG...]

No kernel may spill registers, or have a stack frame: an array that is indexed at run time lies in memory, too. Each kernel is in
the table, which --update writes, and by the nvcc release that wrote it has the registers and shared memory there; another
compiler allots others.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\d+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def plain(symbols):
    """The kernels' names as one writes them: without namespace, result and parameters."""
    text = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True).stdout
    text = re.sub(r"\(heddle::comm::reduction\)(\d)", lambda found: ("sum", "max", "min")[int(found[1])], text)
    return [re.sub(r"\(int\)", "", re.sub(r"\(bool\)1", "true", re.sub(r"\(bool\)0", "false", re.sub(
        r"^void |heddle::kernels::", "", line)))).split("(")[0] for line in text.splitlines()]


def release_of(nvcc):
    return re.search(r"release (\d+\.\d+)", subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout)[1]


def report(nvcc, source, architecture, flags):
    """{kernel: (registers, bytes of shared memory, bytes spilled, bytes of stack frame)}"""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([nvcc, "-std=c++20", f"-arch=sm_{architecture}", f"-DHEDDLE_ARCHITECTURE={architecture}",
                              "-Werror", "all-warnings", "-Xptxas", "-v", *flags,
                              "-cubin", source, "-o", str(pathlib.Path(folder, "kernels.cubin"))], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stdout + run.stderr)
    found, name, spilled, frame = {}, None, 0, 0
    for line in (run.stdout + run.stderr).splitlines():
        if entry := ENTRY.search(line):
            name, spilled, frame = entry[1], 0, 0
        elif spills := SPILLS.search(line):
            spilled, frame = int(spills[2]) + int(spills[3]), int(spills[1])
        elif (used := USED.search(line)) and name:
            shared = SHARED.search(line)
            found[name] = (int(used[1]), int(shared[1]) if shared else 0, spilled, frame)
            name = None
    return dict(zip(plain(found), found.values()))


def rows(table, architecture):
    """Those of one architecture: the table is Markdown, '| kernel | sm | registers | shared | spilled |'."""
    found = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("| \n").split("|")]
        if len(cells) == 5 and cells[1] == architecture:
            found[cells[0].strip("`")] = (int(cells[2]), int(cells[3]), int(cells[4]))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("nvcc")
    parser.add_argument("source")
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("architecture")
    parser.add_argument("--update", action="store_true")
    own, flags = sys.argv[1:], []
    if "--" in own:
        own, flags = own[:own.index("--")], own[own.index("--") + 1:]
    asked = parser.parse_args(own)
    used = report(asked.nvcc, asked.source, asked.architecture, flags)
    if not used:
        sys.exit("nvcc's report names no kernel")
    in_memory = {name: f"spills {spilled} bytes, with a stack frame of {frame}" for name, (_, _, spilled, frame) in used.items()
                 if spilled or frame}
    release = release_of(asked.nvcc)
    text = asked.table.read_text(encoding="utf-8") if asked.table.exists() else ""
    if asked.update:
        others = [line for line in text.splitlines() if line.startswith("| `") and f"` | {asked.architecture} |" not in line]
        mine = [f"| `{name}` | {asked.architecture} | {registers} | {shared} | {spilled} |" for name, (registers, shared, spilled, _) in used.items()]
        head = ["# What the kernels use", "",
                f"Registers of a thread, static shared memory of a block and spilled registers, by the report of nvcc {release}. None has a stack",
                "frame. A test compares, and `tests/nvcc/check_kernels.py … --update` writes it.", "", "| kernel | sm | registers | shared, bytes | spilled, bytes |", "|---|---:|---:|---:|---:|"]
        asked.table.write_text("\n".join(head + sorted(others + mine)) + "\n", encoding="utf-8")
    text = asked.table.read_text(encoding="utf-8")
    recorded = re.search(r"nvcc (\d+\.\d+)", text)
    known = rows(text, asked.architecture)
    now = {name: figures[:3] for name, figures in used.items()}
    red = [f"{name}: {what}" for name, what in in_memory.items()]
    if recorded and recorded[1] != release:
        print(f"the table's figures are of nvcc {recorded[1]}, and this is {release}: they are not compared")
        now, known = dict.fromkeys(now, "there"), dict.fromkeys(known, "there")
    red += [f"{name}: {now.get(name, 'gone')}, the table has {known.get(name, 'nothing')}" for name in sorted(set(now) | set(known))
            if now.get(name) != known.get(name)]
    if not in_memory:
        print(f"{len(used)} kernels for sm_{asked.architecture}, none spills or has a stack frame")
    if red:
        sys.exit("\n".join(red) + "\nmake them less, or write the table anew with --update and say why")


if __name__ == "__main__":
    main()
