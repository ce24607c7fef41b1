#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that headers can be included by anyone, in any order, from any number of files (known-faults CT-1, CT-2, CT-3).

check_headers.py alone INCLUDE -- COMPILER ARGUMENTS...    each header compiles as the only include of a file, and twice
check_headers.py names INCLUDE                             no header uses a name that a system's or toolkit's macro takes
check_headers.py link INCLUDE [NVCC] -- COMPILER ...       two files that include everything, in opposite orders, link
                                                           (with NVCC: two more through it), so nothing lacks `inline`
"""
import pathlib
import re
import subprocess
import sys
import tempfile

from check_layers import blank

# Folders whose headers a .cu file must be able to include.
CUDA_FOLDERS = ("layout", "comm", "tensor", "nn", "pipeline", "optim", "precision", "plan", "models")
# Macros of <complex.h>, <termios.h>, <sys/sysmacros.h>, old <math.h>, the compiler's GNU mode, X11 and Windows'
# <rpcndr.h>: any of them may be on when a user's file reaches our headers.
TAKEN_NAMES = """I B0 ECHO EMPTY major minor makedev DOMAIN SING OVERFLOW UNDERFLOW HUGE linux unix small hyper
None Bool Status Success True False""".split()


def headers(include):
    found = sorted(path.relative_to(include).as_posix() for path in include.glob("heddle/**/*.hpp"))
    if not found:
        sys.exit(f"{include}: holds no heddle header; name the folder that users put on their include path")
    return found


def includes(names):
    return "".join(f"#include <{name}>\n" for name in names)


def compile_text(command, text):
    return subprocess.run(command, input=text, capture_output=True, text=True)


def alone(include, command):
    red = []
    for name in headers(include):
        run = compile_text([*command, f"-I{include}", "-fsyntax-only", "-x", "c++", "-"], includes([name, name]))
        if run.returncode != 0:
            red.append(f"<{name}> does not compile alone:\n{run.stderr}")
    return red


def names(include):
    taken, red = re.compile(rf"\b({'|'.join(TAKEN_NAMES)})\b"), {}
    for name in headers(include):
        for number, line in enumerate(blank((include / name).read_text()).splitlines(), 1):
            for found in taken.findall(line):
                red.setdefault((name, found), number)
    return [f"{name}:{number}: '{found}' is a macro elsewhere; choose another name" for (name, found), number in red.items()]


def link(include, nvcc, command):
    every = headers(include)
    cuda = [name for name in every if name.split("/")[1] in CUDA_FOLDERS]
    with tempfile.TemporaryDirectory() as folder:
        parts = [("forward", command, includes(every)), ("backward", command, includes(reversed(every)))]
        parts[0] = (*parts[0][:2], parts[0][2] + "int main() {}\n")
        if nvcc and cuda:
            flags = [nvcc, "-std=c++20", "-x", "cu", "-Werror", "all-warnings"]
            parts += [("cuda_forward", flags, includes(cuda)), ("cuda_backward", flags, includes(reversed(cuda)))]
        objects = []
        for name, compiler, text in parts:
            source = pathlib.Path(folder) / f"{name}.cpp"
            source.write_text(text)
            objects.append(str(source.with_suffix(".o")))
            run = subprocess.run([*compiler, f"-I{include}", "-c", str(source), "-o", objects[-1]],
                                 capture_output=True, text=True)
            if run.returncode != 0:
                return [f"{name} does not compile:\n{run.stdout}{run.stderr}"]
        linker = [nvcc] if nvcc and cuda else command
        run = subprocess.run([*linker, *objects, "-o", f"{folder}/program"], capture_output=True, text=True)
        return [] if run.returncode == 0 else [f"a definition stands in several files; make it inline:\n{run.stderr}"]


def main(arguments):
    at = arguments.index("--") if "--" in arguments else len(arguments)
    kind, options, command = arguments[0] if arguments else "", arguments[1:at], arguments[at + 1:]
    if kind not in ("alone", "names", "link") or not options or (kind != "names") != bool(command):
        sys.exit(__doc__)
    include = pathlib.Path(options[0]).resolve()
    if kind == "names":
        red = names(include)
    elif kind == "alone":
        red = alone(include, command)
    else:
        red = link(include, options[1] if len(options) > 1 else None, command)
    if red:
        sys.exit("\n".join(red))


if __name__ == "__main__":
    main(sys.argv[1:])
