#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compile time is a feature: what compiling one training program may cost, and that the cost does not grow with 96 layers,
64 micro-batches and 16 times the ranks.

  check_compile.py cost SOURCE -- COMMAND...     seconds and memory of an optimised compilation by g++ against the limits, and
                                                 its memory, work and object of the larger program against the small one's
  check_compile.py growth SOURCE TABLE -- COMMAND...   clang's counts of template instantiations: of the larger program those of
                                                 the small one, and those at most 3 % above what TABLE
                                                 (bench/compile/table.json) has; with another clang, the half that
                                                 needs no table, and "skipped"

What instantiates nothing, a constant that is computed by a loop over layers, shows in what g++ hands out while it reads
(-ftime-report, of a compilation that is not timed), and code for each layer in the object: both are, like the counts, the same in
every run. Seconds are not, though they are processor time: machines differ by a factor of three, and one program's seconds by a
fifth from hour to hour on a machine that others use. So the limit is SECONDS on a machine that compiles the yardstick, Eigen/Dense
included and nothing else, in YARDSTICK_SECONDS, and in proportion on any other; yardstick and programs are compiled in turn, and
of each the quickest of ROUNDS at the most counts.
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

SECONDS = 20.0
YARDSTICK = "#include <Eigen/Dense>\n"
YARDSTICK_SECONDS = 2.5  # 2.6 to 3.2 from hour to hour on the machine of bench/compile/table.md
MIB = 1536
LARGER = 1.05  # what the larger program may cost, of the small one's
ROUNDS = 6
GROWTH = 0.01  # the same templates; room for a table or two whose size is in its type
MORE_THAN_RECORDED = 0.03
SKIPPED = 77  # what meson shows as a test that was not made

SIZES = {"96 layers": "-DHEDDLE_LAYERS=96", "64 micro-batches": "-DHEDDLE_MICRO_BATCHES=64",
         "16 times the ranks": "-DHEDDLE_DATA_RANKS=32"}


def run(command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"does not compile: {' '.join(command)}\n{result.stderr[:4000]}")
    return result.stdout


def compiled(source, command, folder, options):
    """(seconds, MiB at the most, kB of the object) of a compilation by g++. It reports nothing: a report takes half as long
    again."""
    made = os.path.join(folder, "program.o")
    command = [*command, *options, "-c", source, "-o", made]
    with open(os.path.join(folder, "errors"), "w+", encoding="utf-8") as errors:
        compiler = subprocess.Popen(command, stdout=errors, stderr=errors)
        _, status, used = os.wait4(compiler.pid, 0)
        errors.seek(0)
        if status != 0:
            sys.exit(f"does not compile: {' '.join(command)}\n{errors.read(4000)}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, os.path.getsize(made) / 1e3


def yardstick(command, folder):
    """Seconds of the yardstick, the quickest of three."""
    source = os.path.join(folder, "yardstick.cpp")
    with open(source, "w", encoding="utf-8") as file:
        file.write(YARDSTICK)
    return min(compiled(source, command, folder, ["-O0"])[0] for _ in range(3))


def limit(unit):
    """Seconds that the small program may take where the yardstick takes `unit`."""
    return SECONDS * unit / YARDSTICK_SECONDS


def handed_out(source, command, defines):
    """MB that g++ hands out in all while it reads the program and instantiates its templates."""
    command = [*command, *defines, "-fsyntax-only", "-ftime-report", source]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"does not compile: {' '.join(command)}\n{result.stderr[:4000]}")
    total = re.search(r"^ TOTAL .* (\d+)([kMG])$", result.stderr, re.MULTILINE)
    if not total:
        sys.exit(f"-ftime-report has no line TOTAL with the memory that was handed out:\n{result.stderr[-2000:]}")
    return int(total[1]) * {"k": 1e-3, "M": 1, "G": 1e3}[total[2]]


def cost(source, command, folder):
    programs = {"small": [], "larger": list(SIZES.values())}
    least = {name: (float("inf"),) * 3 for name in programs}
    for name in programs:
        os.mkdir(os.path.join(folder, name))
    unit = float("inf")
    for rounds in range(1, ROUNDS + 1):
        # The first time side by side, as long as that is quick enough.
        unit = min(unit, yardstick(command, folder))
        with concurrent.futures.ThreadPoolExecutor(2 if rounds == 1 else 1) as pool:
            figures = pool.map(lambda name: compiled(source, command, os.path.join(folder, name), [*programs[name], "-O2"]), programs)
            least = {name: tuple(map(min, least[name], figure)) for name, figure in zip(programs, figures)}
        limits = {"small": limit(unit), "larger": LARGER * limit(unit)}
        slow = [name for name in programs if least[name][0] > limits[name]]
        if not slow:
            break
    with concurrent.futures.ThreadPoolExecutor() as pool:
        front = list(pool.map(lambda defines: handed_out(source, command, defines), programs.values()))
    least = {name: (*figures, handed) for (name, figures), handed in zip(least.items(), front)}
    units = ("s of processor time", "MiB at the most", "kB of object", "MB handed out by the front end")
    for name, figures in least.items():
        print(f"{name}: " + ", ".join(f"{figure:.1f} {unit}" for figure, unit in zip(figures, units)))
    print(f"the least of {rounds}; the yardstick takes {unit:.2f} s, so the small one's limits are {limits['small']:.1f} s "
          f"({SECONDS} s where it takes {YARDSTICK_SECONDS} s) and {MIB} MiB; larger: with {', '.join(SIZES)}")
    red = [f"{larger / small:.3f} times the {unit}" for small, larger, unit in list(zip(*least.values(), units))[1:]
           if larger > LARGER * small]
    if red:
        sys.exit(f"the larger program costs {', '.join(red)} of the small one, more than {LARGER}: find the loop over layers, "
                 "micro-batches or ranks that the compiler executes, with one size at a time")
    if slow or least["small"][1] > MIB:
        sys.exit("over the limit: find what grew with clang's -ftime-trace")


def instantiations(source, command, folder, defines):
    out = os.path.join(folder, "program.o")
    run(command + defines + ["-O0", "-c", "-emit-llvm", source, "-o", out, "-ftime-trace", "-ftime-trace-granularity=0"])
    with open(os.path.join(folder, "program.json"), encoding="utf-8") as file:
        return sum(event["name"].startswith("Instantiate") for event in json.load(file)["traceEvents"])


def version(command):
    return run(command[:1] + ["--version"]).splitlines()[0]


def growth(source, command, folder, table):
    small = instantiations(source, command, folder, [])
    all_larger = instantiations(source, command, folder, list(SIZES.values()))
    print(f"{small} instantiations; with {', '.join(SIZES)}: {all_larger}")
    if all_larger > small * (1 + GROWTH):
        alone = {name: instantiations(source, command, folder, [define]) for name, define in SIZES.items()}
        sys.exit("grows with size: " + ", ".join(f"{count} with {name}" for name, count in alone.items()))
    with open(table, encoding="utf-8") as file:
        recorded = json.load(file)
    if version(command) != recorded["clang"]:
        print(f"not compared with the table, which is of {recorded['clang']}")
        sys.exit(SKIPPED)
    before = next(row["instantiations"] for row in recorded["programs"] if row["program"] == recorded["gate"])
    print(f"recorded: {before}")
    if small > before * (1 + MORE_THAN_RECORDED):
        sys.exit(f"more than {MORE_THAN_RECORDED:.0%} above the recorded {before}: make it less, or say in the change why it "
                 "is worth it and record anew with bench/compile/measure.py")


def main():
    if len(sys.argv) < 5 or sys.argv[1] not in ("cost", "growth") or "--" not in sys.argv:
        sys.exit(__doc__)
    split = sys.argv.index("--")
    mode, source, *table = sys.argv[1:split]
    with tempfile.TemporaryDirectory() as folder:
        if mode == "cost":
            cost(source, sys.argv[split + 1:], folder)
        else:
            growth(source, sys.argv[split + 1:], folder, *table)


if __name__ == "__main__":
    main()
