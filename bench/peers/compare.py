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
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
OPENBLAS = "/usr/lib/x86_64-linux-gnu/openblas-openmp"
MODELS = ["tiny", "gpt2-124m-64", "gpt2-124m-256"]
ASKED = {"tiny": 1.7, "gpt2-124m-64": 1.15, "gpt2-124m-256": 1.05}
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


def compare(o, model):
    """The rounds of one model, as a row of the table."""
    steps = o.steps or (20 if model == "tiny" else 1)
    tuned = {**core_type(), **TUNED, "LD_LIBRARY_PATH": OPENBLAS, "OMP_NUM_THREADS": o.threads}
    if "OPENBLAS_CORETYPE" in os.environ:
        tuned.pop("OPENBLAS_CORETYPE", None)
    ours = Peer([o.program, model, o.threads, "1000000"], {}, o.cpu)
    try:
        theirs = Peer([o.python, str(HERE / "torch_step.py"), model, o.threads, "1000000"], tuned, o.cpu)
        try:
            rounds = [(ours.step(steps), theirs.step(steps)) for _ in range(o.rounds)]
        finally:
            theirs.end()
    finally:
        ours.end()
    ratios = sorted(t / h for h, t in rounds)
    return {"model": model, "threads": int(o.threads), "time": "on the cores" if o.cpu else "by the clock",
            "heddle_ms": statistics.median(h for h, _ in rounds), "torch_ms": statistics.median(t for _, t in rounds),
            "torch_over_heddle": statistics.median(ratios), "least": ratios[0], "greatest": ratios[-1], "rounds": o.rounds,
            "steps_of_a_round": steps, "load": os.getloadavg()[0]}


def machine():
    """What ratios are of: the cores, and the widest vectors that they have."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = next((set(line.split()) for line in file if line.startswith("flags")), set())
    return {"cores": os.cpu_count(),
            "vectors": next((name for name in ("avx512_bf16", "avx512f", "avx2") if name in flags), "narrower than avx2")}


def version_of_torch(python):
    run = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"compare: {python} has no torch; install Debian's python3-torch and libopenblas0-openmp, or name another by --python")
    return run.stdout.strip()


def markdown(table):
    on = table["machine"]
    yield "# Steps in turn with PyTorch\n"
    yield f"Made by `bench/peers/compare.py`; PyTorch {table['torch']}, {on['cores']} cores with {on['vectors']}.\n"
    yield "| model | threads | time | heddle, ms | PyTorch, ms | PyTorch / heddle | of rounds, from | to | rounds | steps of each | load | asked |"
    yield "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for r in table["rows"]:
        asked = f">= {ASKED[r['model']]}" if r["threads"] == 2 and r["time"] == "by the clock" else ""
        yield (f"| {r['model']} | {r['threads']} | {r['time']} | {r['heddle_ms']:.1f} | {r['torch_ms']:.1f} "
               f"| {r['torch_over_heddle']:.2f} | {r['least']:.2f} | {r['greatest']:.2f} "
               f"| {r['rounds']} | {r['steps_of_a_round']} | {r['load']:.1f} | {asked} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--model", nargs="+", choices=MODELS, help="[tiny; with --out all]")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=0, help="steps of each in a round [tiny: 20, else 1]")
    parser.add_argument("--cpu", action="store_true", help="time on the cores: for one thread, on a busy machine")
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has torch")
    parser.add_argument("--out", type=pathlib.Path, help="a folder that gets table.json and table.md")
    o = parser.parse_args()
    if o.out:
        o.out.mkdir(parents=True, exist_ok=True)  # now, and not after minutes of measuring
    table = {"machine": machine(), "torch": version_of_torch(o.python), "rows": []}
    for model in o.model or (MODELS if o.out else MODELS[:1]):
        row = compare(o, model)
        table["rows"].append(row)
        print(f"{model}, {row['threads']} threads, time {row['time']}: heddle {row['heddle_ms']:.1f} ms, torch {row['torch_ms']:.1f} ms "
              f"a step; torch / heddle {row['torch_over_heddle']:.2f} ({row['least']:.2f} to {row['greatest']:.2f}, {row['rounds']} "
              f"rounds of {row['steps_of_a_round']}; load {row['load']:.1f})", flush=True)
    if o.out:
        (o.out / "table.json").write_text(json.dumps(table, indent=1) + "\n")
        (o.out / "table.md").write_text("\n".join(markdown(table)) + "\n")


if __name__ == "__main__":
    main()
