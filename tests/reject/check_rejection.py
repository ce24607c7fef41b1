#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a program which must not compile is refused for the reason it states.

check_rejection.py FILE CASE -- COMPILER ARGUMENTS...   compiles one case (README.md shows how a case is written)
check_rejection.py --list FOLDER                        prints "FILE CASE" for every case, and "FILE control" once a file
check_rejection.py --complete FOLDER FILE:CASE...       fails when FOLDER holds other cases than those named
"""
import pathlib
import re
import subprocess
import sys

SECTION = re.compile(r"^\s*#\s*(?:if|elif)\s+defined\s*\(?\s*(REJECT_\w+)\s*\)?\s*(.*)$")
EXPECT = re.compile(r"^\s*//\s*expect:\s*(\S.*)$")
SHOWS = re.compile(r"^\s*//\s*shows:\s*(\S.*)$")
ERRORS = re.compile(r"^\s*//\s*errors: at most (\d+)\s*$")
MENTION = re.compile(r"\bREJECT_\w+")
DIAGNOSTIC = re.compile(r"\b(?:fatal )?error\b")
ALSO_NVCC = re.compile(r"^//\s*also: nvcc\s*$", re.MULTILINE)


def sections(path):
    """{case: [texts of the first error, texts that must be seen anywhere, most errors or None]}"""
    found, current = {}, None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        section = SECTION.match(line)
        if section:
            case, comment = section.groups()
            expected = EXPECT.match(comment)
            if not expected:
                sys.exit(f"{path}:{number}: '{case}' has no text; end the line with '// expect: ' and the message")
            if case in found:
                sys.exit(f"{path}:{number}: '{case}' stands twice; give each case its own name")
            current = found.setdefault(case, [[expected.group(1).strip()], [], None])
        elif MENTION.search(line):
            sys.exit(f"{path}:{number}: a case must open with '#if defined(REJECT_…)' or '#elif defined(REJECT_…)'")
        elif EXPECT.match(line):
            if current is None:
                sys.exit(f"{path}:{number}: 'expect:' belongs beside or under the #if or #elif of a case")
            current[0].append(EXPECT.match(line).group(1).strip())
        elif SHOWS.match(line):
            if current is None:
                sys.exit(f"{path}:{number}: 'shows:' belongs under the #if or #elif of a case")
            current[1].append(SHOWS.match(line).group(1).strip())
        elif ERRORS.match(line):
            if current is None:
                sys.exit(f"{path}:{number}: 'errors:' belongs under the #if or #elif of a case")
            current[2] = int(ERRORS.match(line).group(1))
    if not found:
        sys.exit(f"{path}: holds no case; see README.md beside it, or move the file")
    return found


def cases(folder):
    for path in sorted(folder.rglob("*.cpp")):
        name = path.relative_to(folder).as_posix()
        tag = "nvcc " if ALSO_NVCC.search(path.read_text()) else ""
        for case in ["control", *sections(path)]:
            yield name, case, tag


def check(path, case, command):
    every = sections(path)
    if case != "control" and case not in every:
        sys.exit(f"{path}: has no case '{case}'; it has {', '.join(every)}")
    define = [] if case == "control" else [f"-D{case}"]
    run = subprocess.run(command + define + [str(path)], capture_output=True, text=True)
    output = run.stdout + run.stderr
    if case == "control":
        if run.returncode != 0:
            sys.exit(f"{output}\n{path}: the control must compile, and does not")
        return
    if run.returncode == 0:
        sys.exit(f"{path}: '{case}' must be refused, and compiles")
    expected, shown, most = every[case]
    errors = [line for line in output.splitlines() if DIAGNOSTIC.search(line)]
    first = errors[0] if errors else ""
    missed = [text for text in expected if text not in first]
    if "internal compiler error" in output or missed:
        sys.exit(f"{output}\n{path}: '{case}' is refused for another reason.\n  expected: {', '.join(missed)}\n  first error: {first}")
    for text in shown:
        # clang 14 writes a name that is a template argument as the numbers of its letters, at most ten.
        numbers = [str(ord(letter)) for letter in text] + ["0"]
        name = "{{" + ", ".join(numbers[:10] + ["..."] * (len(numbers) > 10)) + "}}"
        if text not in output and name not in output:
            sys.exit(f"{output}\n{path}: '{case}' is refused, but the message does not show: {text}")
    count = sum("error:" in line for line in errors)
    if most is not None and count > most:
        sys.exit(f"{output}\n{path}: '{case}' is refused with {count} errors, and must be with at most {most}")
    print(first)


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--list":
        for name, case, tag in cases(pathlib.Path(arguments[1])):
            print(f"{tag}{name} {case}")
    elif len(arguments) >= 2 and arguments[0] == "--complete":
        here = {f"{name}:{case}" for name, case, _ in cases(pathlib.Path(arguments[1]))}
        wrong = here ^ set(arguments[2:])
        if wrong:
            sys.exit(f"registered and present cases differ: {', '.join(sorted(wrong))}; run 'meson setup --reconfigure'")
    elif len(arguments) >= 4 and arguments[2] == "--":
        check(pathlib.Path(arguments[0]), arguments[1], arguments[3:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
