#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the full equivalence table would build: check_table.py COMPILER [ARGUMENT...]

The suite compiles a covering selection; the whole table is behind -Dequivalence_table=full, 66 programs of 100 s each. Here
its programs are generated: each legal combination must be in one of them, once. Of one program, whose mesh, model and rule
the selection does not have together, every eleventh row is compiled without making code.
"""
import os
import subprocess
import sys
import tempfile

import table

PROGRAM = "dp2-pp2-tp2-gpt2_tied-plain"
EVERY = 11  # 12 of its 128 rows, in which each of its choices occurs


def check_programs(programs):
    rows = [row for of in programs.values() for row in of]
    assert len(rows) == len(set(rows)) and set(rows) == set(table.full()), "the programs are not the table, cut into parts"
    for name, of in programs.items():
        text = "\n".join(table.source(of, "equivalence.hpp"))
        assert text.count("compare_with_serial") == len(of), f"{name}: not every row is compared"
        names = [line for line in text.splitlines() if line.startswith("TEST_CASE")]
        assert len(set(names)) == len(of), f"{name}: two rows have one name"


def check_sample(sample, programs):
    for position, choices in enumerate(table.CHOICES):
        of_program = {row[position] for row in programs[PROGRAM]}
        assert {row[position] for row in sample} == of_program, f"the sample lacks one of {choices}"
    group = {(row[0], row[1], row[4]) for row in sample}
    assert not group & {(row[0], row[1], row[4]) for row in table.covering()}, f"the covering table has {PROGRAM} as well"


def main():
    programs = table.programs("full")
    check_programs(programs)
    sample = programs[PROGRAM][::EVERY]
    check_sample(sample, programs)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, PROGRAM + ".cpp")
        table.write(path, table.source(sample, "equivalence.hpp"))
        ended = subprocess.run(sys.argv[1:] + ["-fsyntax-only", path])
    if ended.returncode != 0:
        sys.exit(f"{len(sample)} rows of {PROGRAM} do not compile")
    print(f"{len(programs)} programs of {sum(map(len, programs.values()))} rows; {len(sample)} rows compile")


if __name__ == "__main__":
    main()
