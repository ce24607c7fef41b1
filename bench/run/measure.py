#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rates of primitives against the machine's limits, steps under plans, and ratios: measure.py BUILD [OPTION]

BUILD is a release build (meson setup BUILD; ninja -C BUILD). FOLDER [bench/run] gets table.json and table.md. Rates are
the fastest of several runs, which other work on the machine disturbs least; steps are the median of the repetitions.
A ratio is of two things that were measured one right after the other, in rounds: the median of the rounds' ratios, with
the least and the greatest. It is what to quote: rows above were measured at different times.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "peers"))
from compare import Peer, machine  # noqa: E402  (a program that takes its turn)

OUTSIDE = 512 * 1024  # bytes of a thread that computes, which are in no ledger
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
                     "threads": int(runs[0]["threads"])})
    return rows


def in_turn(rounds, first, second):
    """Both of a pair measured one after the other in each round, and in the other order in the next: [(first, second), …]"""
    pairs = []
    for n in range(rounds):
        if n % 2 == 0:
            a = first()
            pairs.append((a, second()))
        else:
            b = second()
            pairs.append((first(), b))
    return pairs


def ratio(name, bound, values):
    """A row of the table: `bound` is what is asked of the ratio. The load is of the last minute, five and fifteen."""
    return {"ratio": name, "asked": bound, "median": statistics.median(values), "least": min(values), "greatest": max(values),
            "rounds": len(values), "load": [round(one, 1) for one in os.getloadavg()]}


def steps_in_turn(build, rounds, model, steps):
    """Two plans of a model, their programs stopped while the other takes its steps."""
    program = build / "bench/run/bench-plans"
    for name, bound, of, to in (("two ranks on two cores / one rank on one, tokens/s", ">= 1.8", "serial", "dp2"),
                                ("ZeRO-3 / ZeRO-0 on two ranks, time of a step", "<= 1.15", "dp2 zero 3", "dp2")):
        peers = [Peer([program, "--lines", f"{model} {plan}"], {}, False) for plan in (of, to)]
        try:
            times = in_turn(rounds, *[lambda peer=peer: peer.step(steps) for peer in peers])
        finally:
            for peer in peers:
                peer.end()
        yield ratio(f"{model}: {name}", bound, [a / b for a, b in times])


def rates_of(program, wanted):
    report = google_benchmark(program, f"--benchmark_filter=^({'|'.join(wanted)})$", "--benchmark_min_time=0.2")
    rates = {name: (runs[0]["real_time"], runs[0]["bytes"]) for name, runs in runs_of(report).items()}
    if set(rates) != set(wanted):
        sys.exit(f"{program}: has {sorted(rates)} of the primitives {sorted(wanted)}")
    return rates


def optimizer_against_copy(build, rounds, elements):
    names = [f"limit: copy/{elements}", f"adamw/{elements}", f"sum of squares/{elements}"]
    alone, with_norm = [], []
    for _ in range(rounds):
        (_, copy), (update_time, update), (norm_time, norm) = map(rates_of(build / "bench/run/bench-primitives", names).get, names)
        alone.append(update / copy)
        with_norm.append((update * update_time + norm * norm_time) / (update_time + norm_time) / copy)
    yield ratio(f"AdamW / copy of {elements} elements, bytes/s", ">= 0.8", alone)
    yield ratio(f"AdamW and the gradient norm / copy of {elements} elements, bytes/s", ">= 0.8", with_norm)


def products_against_peak(build, rounds, model, threads, steps):
    """Of products inside a step; the program measures the peak of as many threads at once, before and after it, and the
    same products by themselves."""
    program = build / "bench/run/step"
    values, of_alone = [], []
    for _ in range(rounds):
        run = subprocess.run([program, model, str(threads), str(steps)], capture_output=True, text=True, check=True)
        row = re.search(r"^  product +\S+ +\S+% +\S+ +(\d+\.\d+)$", run.stdout, re.MULTILINE)
        if not row:
            sys.exit(f"{program} {model} {threads}: says no share of the peak, as where there are fewer cores than {threads}")
        values.append(float(row[1]))
        of_alone.append(float(re.search(r"^  products alone .*; in the step they run at (\d+\.\d+) of that$", run.stdout, re.MULTILINE)[1]))
    yield ratio(f"{model}: products of a step on {threads} threads / the same products alone, rate", "", of_alone)
    yield ratio(f"{model}: products of a step on {threads} threads / their peak", ">= 0.74", values)


def ratios(build, rounds, models):
    rows = []
    for made in ([steps_in_turn(build, rounds, model, 20 if model == "tiny" else 1) for model in models] +
                 [optimizer_against_copy(build, rounds, 20_000_000),
                  products_against_peak(build, rounds, "gpt2-124m-64" if "gpt2-124m" in models else "tiny", 2, 3)]):
        for row in made:
            print(f"{row['ratio']}: {row['median']:.2f} ({row['least']:.2f} to {row['greatest']:.2f})", flush=True)
            rows.append(row)
    return rows


def joined_ratios(before, rows):
    """The rows of this run, in the place of those of the same names. Those of another machine go."""
    now = machine()
    kept = before["rows"] if before and before.get("machine") == now else []
    new = {row["ratio"]: row for row in rows}
    at = [row["ratio"] for row in kept] + [name for name in new if name not in {row["ratio"] for row in kept}]
    old = {row["ratio"]: row for row in kept}
    return {"machine": now, "rows": [new.get(name) or old[name] for name in at]}


def check_memory(steps):
    """What is resident is the ledger's, but for 5 % and what threads need outside (docs/reference/ledger.md)."""
    for s in steps:
        most = 1.05 * s["ledger_bytes"] + s["threads"] * OUTSIDE
        if s["resident_bytes"] > most:
            sys.exit(f"{s['plan']}: {s['resident_bytes']:.0f} bytes are resident, more than {most:.0f}; find what the ledger lacks")


def markdown(table):
    context = table["context"]
    yield "# Host backend: rates and steps\n"
    yield f"{context['num_cpus']} cores at {context['mhz_per_cpu']} MHz, load {context['load_avg'][0]:.1f} at the start.\n"
    yield "Made by `bench/run/measure.py`. Of the limit: multiply-adds in registers on one core, or a copy of memory.\n"
    if "ratios" in table:
        yield "## Ratios\n"
        on = table["ratios"]["machine"]
        yield f"Each of a pair measured in turn, on {on['cores']} cores with {on['vectors']}; the load is of the last 1, 5 and 15 minutes.\n"
        yield "| ratio | median | of rounds, from | to | rounds | asked | load |"
        yield "|---|---:|---:|---:|---:|---:|---|"
        for r in table["ratios"]["rows"]:
            yield (f"| {r['ratio']} | {r['median']:.2f} | {r['least']:.2f} | {r['greatest']:.2f} | {r['rounds']} | {r['asked']} "
                   f"| {', '.join(map(str, r['load']))} |")
        yield ""
    yield "## Primitives, one thread\n"
    yield "| primitive | shape | µs | rate | of the limit |"
    yield "|---|---|---:|---:|---:|"
    names = {"FLOP": "GFLOP/s", "bytes": "GB/s", "elements": "G elements/s"}
    for r in table["primitives"]:
        limit = "" if r["of_limit"] is None else f"{r['of_limit']:.2f}"
        yield (f"| {r['primitive']} | {r['shape']} | {r['microseconds']:.1f} | {r['per_second'] / 1e9:.1f} {names[r['unit']]} "
               f"| {limit} |")
    yield "\n## Steps\n"
    yield "| plan | ms (median) | fastest | tokens/s | ledger MiB, all ranks | resident |"
    yield "|---|---:|---:|---:|---:|---:|"
    for s in table["steps"]:
        yield (f"| {s['plan']} | {s['milliseconds']:.1f} | {s['fastest']:.1f} | {s['tokens_per_second']:.0f} "
               f"| {s['ledger_bytes'] / 2**20:.1f} | {s['resident_bytes'] / s['ledger_bytes']:.3f} of it |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    parser.add_argument("--only-ratios", action="store_true", help="the rest of FOLDER's table.json stays, and ratios of models that are not named")
    parser.add_argument("--rounds", type=int, default=7, help="of each ratio [7]")
    parser.add_argument("--models", nargs="+", default=["tiny", "gpt2-124m"], choices=["tiny", "gpt2-124m"], help="of the ratios")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)  # now, and not after minutes of measuring
    if options.only_ratios:
        if not (options.out / "table.json").exists():
            sys.exit(f"--only-ratios: {options.out} has no table.json that the ratios could join; measure all, or name one with --out")
        table = json.loads((options.out / "table.json").read_text())
    else:
        steps = plans(options.build)
        context, rates = primitives(options.build)
        kept = {k: context[k] for k in ("date", "num_cpus", "mhz_per_cpu", "caches", "load_avg") if k in context}
        table = {"context": kept, "primitives": rates, "steps": steps}
    table["ratios"] = joined_ratios(table.get("ratios"), ratios(options.build, options.rounds, options.models))
    (options.out / "table.json").write_text(json.dumps(table, indent=1) + "\n")
    (options.out / "table.md").write_text("\n".join(markdown(table)) + "\n")
    if not options.only_ratios:
        check_memory(table["steps"])


if __name__ == "__main__":
    main()
