#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every file of the tree that git does not ignore, as far as a reader of text can: check_tree.py ROOT"""
import pathlib
import re
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent / "headers"))
from check_layers import blank

TOP_LEVEL = {"meson.build", "meson_options.txt", "include", "kernels", "tests", "examples", "bench", "docs", "tools", ".ci",
             "LICENSE", "README.md", "CHANGELOG.md"}
CXX = {".hpp", ".cpp", ".cuh", ".cu"}
WITH_LICENCE = CXX | {".py", ".sh", ".in"}
WITH_LICENCE_NAMES = {"meson.build", "meson_options.txt"}
MOST_HEADER_LINES = 400
MOST_BYTES = 1 << 20
# Bracketed letters keep these lines from matching themselves.
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:[w]ork|[f]arm|[h]ome|[r]oot|[U]sers)/")
UNFINISHED = re.compile(r"\b(?:T[O]DO|F[I]XME|X[X]X|H[A]CK|p[l]aceholder|s[t]ub|not [i]mplemented)\b")
SWITCHED_OFF = re.compile(r"#\s*if [0]\b|DOCTEST[_]SKIP|doctest::(?:[s]kip|[m]ay_fail|[s]hould_fail)|"
                          r"//\s*(?:[s]tatic_assert|[C]HECK\w*|[R]EQUIRE\w*|[T]EST_CASE)\(")
CONCEPT = re.compile(r"^\s*concept\s+([a-z_]\w*|\w*_\w*)\s*=", re.MULTILINE)
# Names outside include/, whose headers clang-tidy reads: for all other sources it would take minutes.
NAMES = [
    (re.compile(r"\b(?:struct|class|union|enum(?:\s+class)?)\s+(\w*[A-Z]\w*)\s*(?:final\s*)?[:{;]"), "type '{}' must be snake_case"),
    (re.compile(r"\busing\s+([A-Z]\w+)\s*="), "type '{}' must be snake_case"),
    (re.compile(r"\b(?:class|typename)(?:\s*\.\.\.)?\s+([a-z_]\w*)\s*[,>=]"), "template parameter '{}' must be PascalCase"),
    (re.compile(r"^[ \t]*(?:[\w:<>,&*]+[ \t]+)+[&*]*([A-Z]\w*[a-z]\w*)\([^;{}]*\)[^;{}()]*\{", re.MULTILINE),
     "function '{}' must be snake_case"),
    (re.compile(r"(?<![\w.:>])(?!(?:cuda|cublas|nccl)[A-Z]|atomic(?:Add|Max|CAS)\b|(?:thread|block)(?:Idx|Dim)\b|gridDim\b)([a-z][a-z0-9_]*[A-Z]\w*)"),
     "name '{}' must be snake_case"),
    (re.compile(r"^\s*#\s*define\s+(?!HEDDLE_[A-Z0-9_]+\b|DOCTEST_CONFIG_|(?:thread|block)(?:Idx|Dim)\b|gridDim\b|__launch_bounds__\b)(\w+)", re.MULTILINE),
     "macro '{}' must be HEDDLE_UPPER"),
]
OWN_MAIN = re.compile(r"^\s*#\s*define DOCTEST_CONFIG_[I]MPLEMENT", re.MULTILINE)


def files(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True)
    if listed.returncode == 0:
        names = [name for name in listed.stdout.decode().split("\0") if name]
    else:  # an unpacked archive
        names = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    return [name for name in sorted(set(names)) if (root / name).is_file()]


def check_text(name, text):
    suffix, lines = pathlib.PurePosixPath(name).suffix, text.splitlines()
    code = suffix in CXX
    if suffix in WITH_LICENCE or pathlib.PurePosixPath(name).name in WITH_LICENCE_NAMES or text.startswith("#!"):
        where = 1 if text.startswith("#!") else 0
        mark = "// " if code else "# "
        if len(lines) <= where or lines[where] != f"{mark}SPDX-License-Identifier: Apache-2.0":
            yield f"{where + 1}: must be '{mark}SPDX-License-Identifier: Apache-2.0'"
    if suffix in (".hpp", ".cuh"):
        if len(lines) < 2 or lines[1] != "#pragma once":
            yield "2: must be '#pragma once'"
        if len(lines) > MOST_HEADER_LINES:
            yield f"{len(lines)}: a header has at most {MOST_HEADER_LINES} lines; it holds more than one notion, split it"
    if code:
        for found in CONCEPT.finditer(text):
            yield f"{text.count(chr(10), 0, found.start(1)) + 1}: concept '{found.group(1)}' must be PascalCase"
        if not name.startswith("include/"):
            bare = blank(text)
            for form, rule in NAMES:
                for found in form.finditer(bare):
                    yield f"{bare.count(chr(10), 0, found.start(1)) + 1}: {rule.format(found.group(1))}"
        if OWN_MAIN.search(text) and name != "tests/support/main.cpp":
            yield "1: defines doctest's main; link test_dep, which has it"
    for number, line in enumerate(lines, 1):
        if MACHINE_PATH.search(line):
            yield f"{number}: names a path of one machine"
        if code and SWITCHED_OFF.search(line):
            yield f"{number}: is switched off; mend it or delete it"
        if code and not name.startswith("tests/") and UNFINISHED.search(line):
            yield f"{number}: says it is unfinished; finish it or state the limit as an error"


def check(root):
    names = files(root)
    if not names:
        yield f"{root}: holds no file"
    for name in names:
        top = name.split("/")[0]
        if top not in TOP_LEVEL and not top.startswith("."):
            yield f"{name}: belongs into one of the folders that docs/layout.md names"
        if (root / name).stat().st_size > MOST_BYTES:
            yield f"{name}: is larger than {MOST_BYTES} bytes; make it, or load it, when it is needed"
        try:
            text = (root / name).read_text()
        except UnicodeDecodeError:
            continue  # data
        for fault in check_text(name, text):
            yield f"{name}:{fault}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    faults = list(check(pathlib.Path(sys.argv[1]).resolve()))
    if faults:
        sys.exit("\n".join(faults))
