#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rates of primitives against the machine's limits, and steps under plans: measure.py BUILD [--out FOLDER]

BUILD is a release build (meson setup BUILD; ninja -C BUILD). FOLDER [bench/run] gets table.json and table.md. Rates are
the fastest of several runs, which other work on the machine disturbs least; steps are the median of the repetitions.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
OUTSIDE = 512 * 1024  # bytes of a rank that are in no ledger
REPETITIONS = 5


def google_benchmark(program, *options):
    run = subprocess.run([program, "--benchmark_format=json", *options], capture_output=True, text=True, check=False)
    if run.returncode != 0 or not run.stdout:
        sys.exit(f"{program} {' '.join(options)}: {run.stderr.strip() or f'status {run.returncode}'}")
    return json.loads(run.stdout)


def runs_of(report):
    """The repetitions of each benchmark, by its name."""
    runs = {}
    for row in report["benchmarks"]:
        if row["run_type"] == "iteration":
            runs.setdefault(re.sub(r"/(iterations:\d+|repeats:\d+|real_time)", "", row["name"]), []).append(row)
    return runs


def primitives(build):
    rows, context = [], None
    for name in ("bench-primitives", "bench-attention"):
        report = google_benchmark(build / "bench/run" / name, f"--benchmark_repetitions={REPETITIONS}",
                                  "--benchmark_min_time=0.05")
        context = context or report["context"]
        for benchmark, runs in runs_of(report).items():
            counted = next(unit for unit in ("FLOP", "bytes", "elements") if unit in runs[0])
            kind, _, shape = benchmark.partition("/")
            rows.append({"primitive": kind, "shape": shape, "unit": counted, "per_second": max(r[counted] for r in runs),
                         "microseconds": min(r["real_time"] for r in runs)})
    peak = next(r["per_second"] for r in rows if r["primitive"] == "limit: multiply-adds")
    copy = min(r["per_second"] for r in rows if r["primitive"] == "limit: copy")
    for row in rows:
        row["of_limit"] = row["per_second"] / {"FLOP": peak, "bytes": copy}[row["unit"]] if row["unit"] != "elements" else None
    return context, rows


def plans(build):
    program = build / "bench/run/bench-plans"
    listed = subprocess.run([program, "--benchmark_list_tests"], capture_output=True, text=True, check=True).stdout
    rows = []
    for test in listed.split("\n"):
        if not test:
            continue
        runs = next(iter(runs_of(google_benchmark(program, f"--benchmark_filter=^{test}$",
                                                  f"--benchmark_repetitions={REPETITIONS}")).values()))
        times = [r["real_time"] for r in runs]
        rows.append({"plan": test.split("/")[1], "milliseconds": statistics.median(times), "fastest": min(times),
                     "tokens_per_second": statistics.median(r["tokens"] for r in runs),
                     "ledger_bytes": runs[0]["ledger_bytes"], "resident_bytes": runs[0]["resident_bytes"],
                     "ranks": int(runs[0]["ranks"])})
    return rows


def check_memory(steps):
    """What is resident is the ledger's, but for 5 % and what a rank needs outside (docs/reference/ledger.md)."""
    for s in steps:
        most = 1.05 * s["ledger_bytes"] + s["ranks"] * OUTSIDE
        if s["resident_bytes"] > most:
            sys.exit(f"{s['plan']}: {s['resident_bytes']:.0f} bytes are resident, more than {most:.0f}; find what the ledger lacks")


def markdown(context, rates, steps):
    yield "# Host backend: rates and steps\n"
    yield f"{context['num_cpus']} cores at {context['mhz_per_cpu']} MHz, load {context['load_avg'][0]:.1f} at the start.\n"
    yield "Made by `bench/run/measure.py`. Of the limit: multiply-adds in registers on one core, or a copy of memory.\n"
    yield "## Primitives, one thread\n"
    yield "| primitive | shape | µs | rate | of the limit |"
    yield "|---|---|---:|---:|---:|"
    names = {"FLOP": "GFLOP/s", "bytes": "GB/s", "elements": "G elements/s"}
    for r in rates:
        limit = "" if r["of_limit"] is None else f"{r['of_limit']:.2f}"
        yield (f"| {r['primitive']} | {r['shape']} | {r['microseconds']:.1f} | {r['per_second'] / 1e9:.1f} {names[r['unit']]} "
               f"| {limit} |")
    yield "\n## Steps\n"
    yield "| plan | ms (median) | fastest | tokens/s | ledger MiB, all ranks | resident |"
    yield "|---|---:|---:|---:|---:|---:|"
    for s in steps:
        yield (f"| {s['plan']} | {s['milliseconds']:.1f} | {s['fastest']:.1f} | {s['tokens_per_second']:.0f} "
               f"| {s['ledger_bytes'] / 2**20:.1f} | {s['resident_bytes'] / s['ledger_bytes']:.3f} of it |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)  # now, and not after minutes of measuring
    steps = plans(options.build)
    context, rates = primitives(options.build)
    kept = {k: context[k] for k in ("date", "num_cpus", "mhz_per_cpu", "caches", "load_avg") if k in context}
    (options.out / "table.json").write_text(json.dumps({"context": kept, "primitives": rates, "steps": steps}, indent=1) + "\n")
    (options.out / "table.md").write_text("\n".join(markdown(context, rates, steps)) + "\n")
    check_memory(steps)


if __name__ == "__main__":
    main()
