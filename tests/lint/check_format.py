#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-format or clang-tidy, version 14 alone: others format and judge differently. Without it: skipped (77).

check_format.py format ROOT           every C++ file, against .clang-format
check_format.py tidy ROOT [--no-cuda] [--no-nccl] [--no-mpi] ARGUMENTS
                                      one file that includes every header, against .clang-tidy, with compiler arguments;
                                      without those that include the CUDA Toolkit's, where that is missing
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from check_tree import CXX, files

VERSION = 14


def tool(name):
    for candidate in (f"{name}-{VERSION}", name):
        path = shutil.which(candidate)
        if path and re.search(rf"version {VERSION}\.", subprocess.run([path, "--version"], capture_output=True, text=True).stdout):
            return path
    print(f"skipped: {name} {VERSION} is not here")
    sys.exit(77)


def main(kind, root, arguments):
    sources = [name for name in files(root) if pathlib.PurePosixPath(name).suffix in CXX]
    if not sources:
        sys.exit(f"{root}: holds no C++ file")
    if kind == "format":
        command = [tool("clang-format"), "--style=file", "--dry-run", "--Werror", *sources]
        run = subprocess.run(command, cwd=root, capture_output=True, text=True)
        if run.returncode != 0:
            red = sorted({line.split(":")[0] for line in run.stderr.splitlines() if "[-Wclang-format" in line})
            sys.exit(f"{run.stderr}\nrun: clang-format-{VERSION} -i {' '.join(red)}")
        return
    headers = [name[len("include/"):] for name in sources if name.startswith("include/")]
    cuda = ("heddle/backend/cuda", "heddle/cuda")
    lacks = {"--no-cuda": lambda name: name.startswith(cuda), "--no-mpi": lambda name: name.startswith("heddle/backend/mpi"),
             "--no-nccl": lambda name: name.startswith(cuda) and "nccl" in name}
    for one, needs in lacks.items():
        if one in arguments:
            arguments.remove(one)
            headers = [name for name in headers if not needs(name)]
            print(f"skipped: the headers that need {one[len('--no-'):]}, which is not there")

    def tidy(folder, text):
        source = pathlib.Path(folder) / "headers.cpp"
        source.write_text(text)
        return subprocess.run([tool("clang-tidy"), "--quiet", f"--config-file={root / '.clang-tidy'}", source, "--",
                               "-std=c++20", f"-I{root / 'include'}", f"-I{root / 'kernels'}", f"-I{root / 'tests/emulation'}",
                               "-DHEDDLE_EMULATED_DEVICE", *arguments], cwd=root, capture_output=True, text=True)

    with tempfile.TemporaryDirectory() as folder:
        # libstdc++ 13 has what clang 14 does not take.
        if tidy(folder, "#include <chrono>\n").returncode != 0:
            print(f"skipped: clang-tidy {VERSION} cannot read this standard library")
            sys.exit(77)
        run = tidy(folder, "".join(f"#include <{name}>\n" for name in headers))
    if run.returncode != 0:
        sys.exit(run.stdout + run.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("format", "tidy"):
        sys.exit(__doc__)
    main(sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:])
