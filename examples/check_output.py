#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs an example and checks that what the pages show of its output is what it prints.

check_output.py ROOT NAME PROGRAM            red where the program fails, or a page shows something else
check_output.py ROOT NAME PROGRAM --update   rewrites the pages

A block of output stands below the line `<!-- output of NAME: FIRST … LAST -->`: the lines from the first one that begins
with the words FIRST to the next one that begins with LAST, spaces in front aside. Decimal fractions may differ, since the order of
sums within a product depends on the machine.
"""
import pathlib
import re
import subprocess
import sys

BLOCK = re.compile(r"<!-- output of (?P<name>\S+): (?P<first>.+?) … (?P<last>.+?) -->\n```text\n(?P<body>.*?)```", re.DOTALL)
FRACTION = re.compile(r"\d+\.\d+(?:e[+-]\d+)?")


def excerpt(output, first, last):
    lines = output.splitlines()

    def find(word, begin):
        wanted = re.compile(r"\s*" + re.escape(word) + r"(?!\w)")
        return next((at for at in range(begin, len(lines)) if wanted.match(lines[at])), None)

    begin = find(first, 0)
    end = None if begin is None else find(last, begin)
    return None if end is None else "".join(line.rstrip() + "\n" for line in lines[begin : end + 1])


def main(root, name, program, update):
    run = subprocess.run([program], capture_output=True, text=True, check=False)
    print(run.stdout, run.stderr, sep="")
    if run.returncode != 0:
        sys.exit(f"{name}: exit status {run.returncode}")
    faults = []
    for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        text = page.read_text()
        shown = page.relative_to(root).as_posix()

        def renew(block):
            if block["name"] != name:
                return block[0]
            wanted = excerpt(run.stdout, block["first"], block["last"])
            if wanted is None:
                faults.append(f"{shown}: {name} prints no line that begins with '{block['first']}', or none after it with "
                              f"'{block['last']}'")
            elif FRACTION.sub("#", wanted) != FRACTION.sub("#", block["body"]):
                if update:
                    return block[0][: block.start("body") - block.start()] + wanted + "```"
                faults.append(f"{shown}: shows of {name} what it does not print, at '{block['first']}'; run "
                              "examples/check_output.py with --update")
            return block[0]

        renewed = BLOCK.sub(renew, text)
        if renewed != text:
            page.write_text(renewed)
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5) or sys.argv[4:] not in ([], ["--update"]):
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3], len(sys.argv) == 5)
