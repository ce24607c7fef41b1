#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that headers can be included by anyone, in any order, from any number of files (known-faults CT-1, CT-2, CT-3).

check_headers.py alone INCLUDE -- COMPILER ARGUMENTS...    each header compiles as the only include of a file, and twice
check_headers.py names INCLUDE                             no header uses a name that a system's or toolkit's macro takes
check_headers.py link INCLUDE [NVCC] -- COMPILER ...       two files that include everything, in opposite orders, link
                                                           (with NVCC: two more, of the folders that .cu files
                                                           include), so nothing lacks `inline`
check_headers.py uses FOLDER INCLUDE [NVCC] -- COMPILER .. two files that use what they include link, and come to the
                                                           same (with NVCC: two more, without and with relocatable
                                                           device code): FOLDER's part.cpp and part.cu
With --no-cuda, --no-nccl or --no-mpi behind INCLUDE, where that is not there, the headers that include its own are left out, which
is said.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

from check_layers import blank

# Folders whose headers .cu files include. That each includes what it needs is the same for every compiler.
CUDA_FOLDERS = ("layout", "comm", "tensor", "nn")
# Whose headers include NVIDIA's, and the kernels, which lie beside INCLUDE.
CUDA_BACKEND = ("heddle/backend/cuda", "heddle/cuda")
# Brings the host backend, too, and so Eigen, whose headers warn under nvcc: tests/nvcc/program.cu is its test.
CUDA_UMBRELLA = "heddle/cuda.hpp"
# Macros of <complex.h>, <termios.h>, <sys/sysmacros.h>, old <math.h>, the compiler's GNU mode, X11 and Windows'
# <rpcndr.h>: any of them may be on when a user's file reaches our headers.
TAKEN_NAMES = """I B0 ECHO EMPTY major minor makedev DOMAIN SING OVERFLOW UNDERFLOW HUGE linux unix small hyper
None Bool Status Success True False""".split()


# What a machine may lack, and whose headers are left out then.
LACKS = {
    "--no-cuda": lambda name: name.startswith(CUDA_BACKEND),
    "--no-nccl": lambda name: name.startswith(CUDA_BACKEND) and "nccl" in name,
    "--no-mpi": lambda name: name.startswith("heddle/backend/mpi"),
}
lacking = []


def headers(include):
    found = sorted(path.relative_to(include).as_posix() for path in include.glob("heddle/**/*.hpp"))
    if not found:
        sys.exit(f"{include}: holds no heddle header; name the folder that users put on their include path")
    return [name for name in found if not any(LACKS[one](name) for one in lacking)]


def includes(names):
    return "".join(f"#include <{name}>\n" for name in names)


def found_in(include):
    kernels = include.parent / "kernels"
    return [f"-I{include}"] + ([f"-I{kernels}"] if kernels.is_dir() else [])


def compile_text(command, text):
    return subprocess.run(command, input=text, capture_output=True, text=True)


INCLUDE = re.compile(r"^\s*#\s*include\s*<([^>]+)>", re.MULTILINE)


def reached(include):
    """Of each header, what it includes, and what that includes; not itself."""
    direct = {name: INCLUDE.findall((include / name).read_text()) for name in headers(include)}
    found = {}

    def of(name):
        if name not in found:
            found[name] = set()  # of a circle
            found[name] = set(direct.get(name, ())).union(*(of(one) for one in direct.get(name, ())))
        return found[name]

    return {name: of(name) for name in direct}


def read_once(include, kept=24):
    """Of each header, the one among those `kept`, ours or the standard library's, that it includes and which is the most of it,
    or None: where a file begins with that one, precompiled, its own text sees no more than when it is alone, and each of ours is
    compiled alone itself. Those are kept that spare the most."""
    below = reached(include)
    # In about the milliseconds that they take.
    cost = {"cstddef": 5, "cstdint": 10, "string": 250, "map": 150, "functional": 250, "algorithm": 250, "chrono": 350}

    def of(names):
        eigen = any("Eigen" in one for one in names)
        return sum(cost.get(one, 20 if "/" in one else 60) for one in names) + 1500 * eigen

    weight = {one: of(found | {one}) for one, found in below.items()}
    weight |= {one: of({one}) for found in below.values() for one in found if one not in weight and "/" not in one}
    chosen, spared = [], dict.fromkeys(below, 0)
    for _ in range(kept):
        gain = {one: sum(max(0, weight[one] - spared[name]) for name in below if one in below[name]) - weight[one] for one in weight}
        best = max(gain, key=gain.get, default=None)
        if best is None or gain[best] <= 0:
            break
        chosen.append(best)
        for name in below:
            if best in below[name]:
                spared[name] = max(spared[name], weight[best])
    return {name: max((one for one in chosen if one in below[name]), key=weight.get, default=None) for name in below}


def alone(include, command):
    command = [*command, *found_in(include)]
    # Precompiled headers of another compiler than g++ are asked for in other words.
    version = subprocess.run([command[0], "--version"], capture_output=True, text=True).stdout
    first = read_once(include) if "Free Software Foundation" in version else dict.fromkeys(headers(include))
    red = []
    with tempfile.TemporaryDirectory() as folder:
        begins = {}
        for number, one in enumerate(sorted({one for one in first.values() if one})):
            text = pathlib.Path(folder, f"{number}.hpp")
            text.write_text(includes([one]))
            run = subprocess.run([*command, "-x", "c++-header", str(text), "-o", f"{text}.gch"], capture_output=True, text=True)
            if run.returncode == 0:  # else it is told of where it is compiled alone
                begins[one] = ["-Winvalid-pch", "-include", str(text)]
        for name, one in first.items():
            run = compile_text([*command, *begins.get(one, []), "-fsyntax-only", "-x", "c++", "-"], includes([name, name]))
            if run.returncode != 0:
                red.append(f"<{name}> does not compile alone:\n{run.stderr}")
    return red


def cuda_headers(include):
    return [name for name in headers(include)
            if (name.split("/")[1] in CUDA_FOLDERS or name.startswith(CUDA_BACKEND)) and name != CUDA_UMBRELLA]


def names(include):
    taken, red = re.compile(rf"\b({'|'.join(TAKEN_NAMES)})\b"), {}
    for name in headers(include):
        for number, line in enumerate(blank((include / name).read_text()).splitlines(), 1):
            for found in taken.findall(line):
                red.setdefault((name, found), number)
    return [f"{name}:{number}: '{found}' is a macro elsewhere; choose another name" for (name, found), number in red.items()]


def link(include, nvcc, command):
    every = headers(include)
    for_cuda = cuda_headers(include)
    with tempfile.TemporaryDirectory() as folder:
        parts = [("forward", command, includes(every)), ("backward", command, includes(reversed(every)))]
        parts[0] = (*parts[0][:2], parts[0][2] + "int main() {}\n")
        if nvcc and for_cuda:
            flags = [nvcc, "-std=c++20", "-x", "cu", "-Werror", "all-warnings"]
            parts += [("cuda_forward", flags, includes(for_cuda)), ("cuda_backward", flags, includes(reversed(for_cuda)))]
        objects = []
        for name, compiler, text in parts:
            source = pathlib.Path(folder) / f"{name}.cpp"
            source.write_text(text)
            objects.append(str(source.with_suffix(".o")))
            run = subprocess.run([*compiler, *found_in(include), "-c", str(source), "-o", objects[-1]],
                                 capture_output=True, text=True)
            if run.returncode != 0:
                return [f"{name} does not compile:\n{run.stdout}{run.stderr}"]
        linker = [nvcc] if nvcc and for_cuda else command
        run = subprocess.run([*linker, *objects, "-o", f"{folder}/program"], capture_output=True, text=True)
        return [] if run.returncode == 0 else [f"a definition stands in several files; make it inline:\n{run.stderr}"]


def uses(parts, include, nvcc, command):
    with tempfile.TemporaryDirectory() as folder:
        def build(source, part, compiler):
            built = f"{folder}/{part}.o"
            run = subprocess.run([*compiler, *found_in(include), f"-DHEDDLE_PART={part}", "-c", str(source), "-o", built],
                                 capture_output=True, text=True)
            if run.returncode != 0:
                sys.exit(f"{part}, {source.name}, does not compile:\n{run.stdout}{run.stderr}")
            return built

        def together(objects, groups, linker):
            """The groups' parts must each come to the same."""
            main = pathlib.Path(folder) / "main.cpp"
            main.write_text("".join(f"double {part}();\n" for group in groups for part in group) + "int main() { return " +
                            " && ".join(f"{one}() == {two}()" for one, two in groups) + " ? 0 : 1; }\n")
            program = f"{folder}/program"
            run = subprocess.run([*linker, str(main), *objects, "-o", program], capture_output=True, text=True)
            if run.returncode != 0:
                return [f"a definition stands in several files; make it inline:\n{run.stderr}"]
            run = subprocess.run([program], capture_output=True, text=True)
            return [] if run.returncode == 0 else [f"two files come to different results ({run.returncode}): {run.stderr}"]

        host, device = ("host_one", "host_two"), ("device_one", "device_two")
        objects = [build(parts / "part.cpp", part, command) for part in host]
        if not nvcc:
            return together(objects, [host], command)
        red = []
        for relocatable in ("false", "true"):
            flags = [nvcc, "-std=c++20", "-Werror", "all-warnings", f"-rdc={relocatable}"]
            for_device = [build(parts / "part.cu", part, flags) for part in device]
            red += together(objects + for_device, [host, device], flags)
        return red


def main(arguments):
    at = arguments.index("--") if "--" in arguments else len(arguments)
    kind, options, command = arguments[0] if arguments else "", arguments[1:at], arguments[at + 1:]
    for one in LACKS:
        if one in options:
            options.remove(one)
            lacking.append(one)
            print(f"skipped: the headers that need {one[len('--no-'):]}, which is not there")
    if kind not in ("alone", "names", "link", "uses") or not options or (kind != "names") != bool(command):
        sys.exit(__doc__)
    parts = pathlib.Path(options.pop(0)).resolve() if kind == "uses" else None
    if not options:
        sys.exit(__doc__)
    include = pathlib.Path(options[0]).resolve()
    if kind == "names":
        red = names(include)
    elif kind == "alone":
        red = alone(include, command)
    else:
        nvcc = options[1] if len(options) > 1 else None
        red = link(include, nvcc, command) if kind == "link" else uses(parts, include, nvcc, command)
    if red:
        sys.exit("\n".join(red))


if __name__ == "__main__":
    main(sys.argv[1:])
