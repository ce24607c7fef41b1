#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two shared libraries with different versions of heddle in one process: each runs its own, when compiled as
docs/howto/shared-libraries.md says, and not otherwise.

check_shared_libraries.py INCLUDE LIBRARY_SOURCE PROGRAM_SOURCE COMPILER...
The other version is a copy of the headers in which names are put in other quotes.
"""
import concurrent.futures
import pathlib
import shutil
import subprocess
import sys
import tempfile

HIDDEN = ["-fvisibility=hidden", "-fvisibility-inlines-hidden"]
CHANGED = pathlib.Path("heddle/comm/detail/thread_call.hpp")
QUOTED = r'''joined_text({"\"", name, "\""})'''


def run(*arguments):
    made = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        sys.exit(f"{made.stdout}{made.stderr}\n{arguments} gave {made.returncode}")
    return made.stdout


def main(include, library, program, compiler):
    with tempfile.TemporaryDirectory() as name:
        here = pathlib.Path(name)
        other = here / "include"
        shutil.copytree(include, other)
        text = (other / CHANGED).read_text(encoding="utf-8")
        if text.count(QUOTED) != 1:
            sys.exit(f"{CHANGED} does not have {QUOTED!r} once: change this test's other version with it")
        (other / CHANGED).write_text(text.replace(QUOTED, QUOTED.replace(r'"\""', '"~"')), encoding="utf-8")

        def build(made, headers, options):
            run(*compiler, "-std=c++20", "-O0", "-fPIC", "-shared", "-pthread", f"-I{headers}", *options, library, "-o", here / made)

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda one: build(*one), [("one.so", include, HIDDEN), ("other.so", other, HIDDEN),
                                                    ("open_one.so", include, []), ("open_other.so", other, [])]))
        run(*compiler, "-std=c++20", program, "-o", here / "program", "-ldl")

        def said(*libraries):
            lines = run(here / "program", *[here / one for one in libraries]).splitlines()
            print(*lines, sep="\n")
            return ["~" in line for line in lines if line], ['"' in line for line in lines if line]

        if said("one.so", "other.so") != ([False, True], [True, False]) or said("other.so", "one.so") != ([True, False], [False, True]):
            sys.exit("with hidden symbols each library must run its own version: the first in double quotes, the second in ~")
        for made in ("one.so", "other.so"):
            seen = [line for line in run("nm", "-D", "--defined-only", "-C", here / made).splitlines() if "heddle::" in line]
            if seen:
                sys.exit(f"{made} exports, compiled with {HIDDEN}: {seen[:5]}")
        # Otherwise this test would not see a clash.
        if said("open_one.so", "open_other.so") != ([False, False], [True, True]):
            sys.exit("without hidden symbols the second library was expected to run the first one's version")


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(*map(pathlib.Path, sys.argv[1:4]), sys.argv[4:])
