#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps of heddle and of PyTorch in turn, and the ratio of their times: compare.py PROGRAM [OPTION]

PROGRAM is bench/peers/peer-step of a build. Two processes take a step each alternately, since other work on a machine
comes and goes: the median over the rounds of torch / heddle is what to quote, with the load. PyTorch is Debian's
(python3-torch, libopenblas0-openmp), tuned: one pool of threads, and pages kept between steps; as installed it takes
twice as long. OpenBLAS is told the family of cores whose kernels it has, because for a processor younger than itself it
takes those of 2004, and a fifth of the speed. OPENBLAS_CORETYPE in the environment goes before that.
"""
import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
OPENBLAS = "/usr/lib/x86_64-linux-gnu/openblas-openmp"
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000", "MALLOC_TOP_PAD_": "268435456"}


def core_type():
    """The newest of OpenBLAS's families that this processor has the instructions of."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = next((set(line.split()) for line in file if line.startswith("flags")), set())
    for name, needed in (("Cooperlake", "avx512_bf16"), ("SkylakeX", "avx512f"), ("Haswell", "avx2")):
        if needed in flags:
            return {"OPENBLAS_CORETYPE": name}
    return {}


class Peer:
    """A program that prints a line for each step, and stands still between the lines that it is asked for."""

    def __init__(self, command, environment, cpu):
        self.cpu = cpu
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
        self.read()
        self.process.send_signal(signal.SIGSTOP)

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"compare: {self.process.args[0]} ended with status {self.process.wait()}; run it alone to see why")
        return float(line.split()[1 if self.cpu else 0])

    def step(self, steps):
        """Times of steps that began while it ran: the first after a stop is not counted."""
        self.process.send_signal(signal.SIGCONT)
        self.read()
        times = [self.read() for _ in range(steps)]
        self.process.send_signal(signal.SIGSTOP)
        return statistics.median(times)

    def end(self):
        self.process.kill()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--model", default="tiny", choices=["tiny", "gpt2-124m-64", "gpt2-124m-256"])
    parser.add_argument("--threads", default="2")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=0, help="steps of each in a round [tiny: 20, else 1]")
    parser.add_argument("--cpu", action="store_true", help="time on the cores: for one thread, on a busy machine")
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has torch")
    o = parser.parse_args()
    steps = o.steps or (20 if o.model == "tiny" else 1)
    tuned = {**core_type(), **TUNED, "LD_LIBRARY_PATH": OPENBLAS, "OMP_NUM_THREADS": o.threads}
    if "OPENBLAS_CORETYPE" in os.environ:
        tuned.pop("OPENBLAS_CORETYPE", None)
    ours = Peer([o.program, o.model, o.threads, "1000000"], {}, o.cpu)
    theirs = Peer([o.python, str(HERE / "torch_step.py"), o.model, o.threads, "1000000"], tuned, o.cpu)
    try:
        rounds = [(ours.step(steps), theirs.step(steps)) for _ in range(o.rounds)]
    finally:
        ours.end()
        theirs.end()
    ratios = sorted(t / h for h, t in rounds)
    print(f"{o.model}, {o.threads} threads{', time on the cores' if o.cpu else ''}: heddle {statistics.median(h for h, _ in rounds):.1f} ms, "
          f"torch {statistics.median(t for _, t in rounds):.1f} ms a step; torch / heddle {statistics.median(ratios):.2f} "
          f"({ratios[0]:.2f} to {ratios[-1]:.2f}, {o.rounds} rounds of {steps}; load {os.getloadavg()[0]:.1f})")


if __name__ == "__main__":
    main()
