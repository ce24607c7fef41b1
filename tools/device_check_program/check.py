#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/device-check does: see its --help, and docs/reference/device-check.md for what the results are."""
import argparse
import csv
import json
import os
import pathlib
import platform
import random
import shutil
import statistics
import subprocess
import sys
import time

import programs
import report

# Of 200 steps on these verses at a rate of 1e-3 a rate that is 1e-6 off, about as much as rounding does, shows as 1e-5 of a loss; one
# that is a tenth of a percent off as 3e-2.
TRAINING = {"steps": 200, "train_loss_tolerance": 1e-3, "validation_tolerance": 1e-3}
STEPS = 20
# (model, how, seconds that it takes at least): in the order in which they are measured while there is time.
PEERS = [("gpt2-124m", "eager", 15), ("gpt2-124m", "compiled", 45), ("gpt2-350m", "eager", 20), ("gpt2-1.5b", "eager", 25),
         ("gpt2-350m", "compiled", 60), ("gpt2-1.5b", "compiled", 90)]


def verses(lines=1500):
    """A text of few words in a fixed grammar, the same everywhere: hardly any of it depends on a bit of a sum."""
    draw = random.Random(1)
    parts = [["the king", "a fool", "my lord", "the moon", "thy sweet love", "an old crown"],
             ["doth speak of", "will not hear", "is come to", "hath forgot", "must follow"],
             ["the night", "my heart", "a winter's tale", "thine honest eye", "all the world"]]
    return "".join(" ".join(map(draw.choice, parts)) + draw.choice([",\n", ".\n", ";\n", "!\n"]) for _ in range(lines))


def refuse(text):
    print(f"tools/device-check: {text}", file=sys.stderr)
    sys.exit(2)


def say(text):
    print(text, file=sys.stderr, flush=True)


class Check:
    """One run: what there is to do, the time for it, and what it came to."""

    def __init__(self, options):
        self.begin = time.monotonic()
        self.until = self.begin + 60 * options.minutes
        self.out = pathlib.Path(options.out)
        self.logs = self.out / "logs"
        self.emulated = options.emulated is not None
        self.commands = {}
        self.environment = os.environ | {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]}
        self.result = {"schema": 1, "complete": False, "emulated": self.emulated, "minutes": options.minutes, "device": {}, "built": [],
                       "tests": [], "training": None, "limits": {}, "kernels": [], "steps": [], "peers": [], "sanitizer": [], "cut": [],
                       "seconds": 0}

    def left(self):
        return self.until - time.monotonic()

    def cut(self, what, why):
        self.result["cut"].append({"what": what, "why": why})
        say(f"left out: {what}: {why}")

    def save(self):
        """The results so far, each file whole at any time."""
        self.result["seconds"] = round(time.monotonic() - self.begin, 1)
        for name, text in (("results.json", json.dumps(self.result, indent=2) + "\n"), ("results.md", report.markdown(self.result))):
            part = self.out / f".{name}.part"
            part.write_text(text)
            os.replace(part, self.out / name)

    def run(self, name, command, least=1.0, most=120.0, environment=None):
        """(status, seconds, standard output) of a program, or nothing where there is no time: then it is in `cut`."""
        if self.left() < least:
            self.cut(name, f"{max(self.left(), 0):.0f} s were left, and it needs {least:.0f} at least")
            return None
        log = self.logs / f"{name.replace(' ', '-')}.txt"
        begin = time.monotonic()
        limit = min(most, self.left())
        with open(log, "w+", errors="replace") as file, open(log.with_suffix(".errors.txt"), "w") as errors:
            process = subprocess.Popen(list(map(str, command)), stdout=file, stderr=errors, start_new_session=True,
                                       env=environment or self.environment)
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                status = None
            file.seek(0)
            said = file.read()
        seconds = round(time.monotonic() - begin, 2)
        if status is None and limit < most:
            self.cut(name, f"it had not ended after {seconds:.0f} s, when the time was up")
            return None
        return status, seconds, said

    def available(self, name):
        if name in self.commands:
            return True
        if not any(one["what"] == name for one in self.result["cut"]):
            self.cut(name, "its program was not built")
        return False

    def fault_of(self, name):
        """The last lines of what a program said."""
        stem = name.replace(" ", "-")
        text = "".join((self.logs / f"{stem}{end}").read_text(errors="replace") for end in (".txt", ".errors.txt"))
        return text.strip().splitlines()[-8:]

    # The parts, in their order.

    def tests(self):
        for name in programs.TESTS:
            if not self.available(name):
                continue
            leave = [] if self.emulated else [f"{one}*" for one in programs.NOT_ON_A_DEVICE.get(name, [])]
            ran = self.run(name, [*self.commands[name], *([f"--test-case-exclude={','.join(leave)}"] if leave else [])])
            if ran is None:
                continue
            status, seconds, _ = ran
            passed = status == 0
            self.result["tests"].append({"name": name, "passed": passed, "seconds": seconds, "left_out": leave,
                                         "said": [] if passed else self.fault_of(name)})
            say(f"{'passed' if passed else 'FAILED'}: {name} ({seconds} s)")
            self.save()

    def training(self):
        if not (self.available("train-tiny") and self.available("train-tiny-host")):
            return
        text = self.logs / "text.txt"
        text.write_text(verses() if not self.emulated else verses(30))
        steps = TRAINING["steps"] if not self.emulated else 1
        both = {}
        for name in ("train-tiny-host", "train-tiny"):
            out = self.logs / name
            ran = self.run(name, [*self.commands[name], f"--data={text}", f"--steps={steps}", "--eval-every=0", "--sample=0",
                                  f"--out={out}"], least=10 if not self.emulated else 1, most=200)
            if ran is None:
                return
            if ran[0] != 0:
                self.result["training"] = {"steps": steps, "passed": False, "said": [f"{name}:", *self.fault_of(name)]}
                return
            with open(out / "metrics.csv", newline="") as file:
                rows = list(csv.DictReader(file))
            both[name] = {"losses": [float(row["train_loss"]) for row in rows[:-1]], "seconds": ran[1],
                          "validation": float(ran[2].strip().splitlines()[-1].split()[-1])}
        device, host = both["train-tiny"], both["train-tiny-host"]
        apart = max(abs(a / b - 1) for a, b in zip(device["losses"], host["losses"], strict=True))
        passed = (apart <= TRAINING["train_loss_tolerance"] and
                  abs(device["validation"] / host["validation"] - 1) <= TRAINING["validation_tolerance"])
        self.result["training"] = {
            "steps": steps, "passed": passed, "largest_relative_difference": apart, "tolerance": TRAINING["train_loss_tolerance"],
            "first_loss": device["losses"][0], "device_validation_loss": device["validation"],
            "host_validation_loss": host["validation"], "device_seconds": device["seconds"], "said": []}
        say(f"{'passed' if passed else 'FAILED'}: {steps} steps of tiny, losses at most {apart:.1e} apart")

    def kernels(self):
        if not self.available("device-kernels"):
            return
        ran = self.run("device-kernels", [*self.commands["device-kernels"], "0.02" if not self.emulated else "1e-9"], least=10, most=120)
        if ran is None:
            return
        lines = [json.loads(line) for line in ran[2].splitlines() if line.startswith("{")]
        limits = {}
        for line in lines:
            if line["kind"] == "limit":
                limits[line["unit"]] = max(limits.get(line["unit"], 0), line["amount"] / line["seconds"])
        self.result["limits"] = {"copy_bytes_per_second": limits.get("byte"), "product_flop_per_second": limits.get("flop")}
        for line in lines:
            if line["kind"] == "kernel" and line["unit"] in limits:
                rate = line["amount"] / line["seconds"]
                self.result["kernels"].append({key: line[key] for key in ("name", "type", "unit", "amount", "seconds")} |
                                              {"per_second": rate, "share": rate / limits[line["unit"]]})
        if ran[0] != 0:
            self.failed("device-kernels")

    def steps(self):
        for name in programs.MODELS:
            if not self.available(name):
                continue
            ran = self.run(name, [*self.commands[name], STEPS if not self.emulated else 1], least=10, most=120)
            if ran is None:
                continue
            if ran[0] != 0:
                self.failed(name)
                continue
            got = json.loads(ran[2].strip().splitlines()[-1])
            median = statistics.median(got["seconds"])
            limit = self.result["limits"].get("product_flop_per_second")
            self.result["steps"].append({
                "name": name, "parameters": got["parameters"], "tokens_per_step": got["tokens_per_step"], "seconds": median,
                "tokens_per_second": got["tokens_per_step"] / median, "flop_per_second": got["flop_per_step"] / median,
                "utilisation": got["flop_per_step"] / median / limit if limit else None, "ledger_bytes": got["ledger_bytes"],
                "allocated_bytes": got["allocated_bytes"], "device_bytes": got["device_bytes"],
                "passed": got["ledger_bytes"] == got["allocated_bytes"], "last_loss": got["losses"][-1]})
            self.save()

    def failed(self, name):
        self.result["tests"].append({"name": name, "passed": False, "seconds": 0, "left_out": [], "said": self.fault_of(name)})
        say(f"FAILED: {name}")

    def peers(self):
        if self.emulated:
            return
        python = next((one for one in (sys.executable, "python3", "/usr/bin/python3", "python") if shutil.which(one) and subprocess.run(
            [one, "-c", "import torch, sys; sys.exit(not torch.cuda.is_available())"], capture_output=True).returncode == 0), None)
        if python is None:
            self.cut("PyTorch", "no Python here has a PyTorch that sees the GPU")
            return
        for model, how, least in PEERS:
            layers, heads, width, sequences = programs.MODELS[model]
            name = f"pytorch {model} {how}"
            ran = self.run(name, [python, programs.ROOT / "bench/peers/torch_device.py", "--how", how, "--layers", layers, "--heads", heads,
                                  "--width", width, "--sequences", sequences, "--context", programs.CONTEXT, "--vocabulary",
                                  programs.VOCABULARY, "--steps", STEPS], least=least, most=200)
            if ran is None:
                continue
            if ran[0] != 0:
                self.cut(name, "it failed: " + " / ".join(self.fault_of(name)[-2:]))
                continue
            got = json.loads(ran[2].strip().splitlines()[-1])
            median = statistics.median(got["seconds"])
            ours = next((one for one in self.result["steps"] if one["name"] == model), None)
            self.result["peers"].append({"name": model, "how": how, "version": got["version"], "seconds": median,
                                         "tokens_per_second": got["tokens_per_step"] / median, "device_bytes": got["device_bytes"],
                                         "times_slower_than_heddle": median / ours["seconds"] if ours else None})
            self.save()

    def sanitizer(self):
        tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
        if self.emulated:
            return
        if tool is None:
            self.cut("compute-sanitizer", "it is not there")
            return
        for name, kind in (("graph", "memcheck"), ("product", "memcheck"), ("graph", "racecheck")):
            if not self.available(name):
                continue
            leave = [f"{one}*" for one in programs.NOT_ON_A_DEVICE.get(name, [])]
            ran = self.run(f"{kind} {name}", [tool, f"--tool={kind}", "--error-exitcode=99", *self.commands[name],
                                              *([f"--test-case-exclude={','.join(leave)}"] if leave else [])], least=20, most=90)
            if ran is not None:
                self.result["sanitizer"].append({"name": name, "tool": kind, "passed": ran[0] == 0, "seconds": ran[1],
                                                 "said": [] if ran[0] == 0 else self.fault_of(f"{kind} {name}")})
                self.save()

    def passed(self):
        parts = self.result["tests"] + self.result["steps"] + self.result["sanitizer"]
        training = self.result["training"]
        return (self.result["tests"] != [] and all(one["passed"] for one in parts) and (training is None or training["passed"]) and
                not any(one["status"] == "failed" for one in self.result["built"]))


def look_for_device():
    """The GPU that is used, from nvidia-smi."""
    ask = ["nvidia-smi", "--query-gpu=name,compute_cap,driver_version,memory.total", "--format=csv,noheader,nounits"]
    try:
        ran = subprocess.run(ask, capture_output=True, text=True, check=False)
        lines = ran.stdout.strip().splitlines() if ran.returncode == 0 else []
    except OSError:
        lines = []
    if not lines:
        refuse("nvidia-smi shows no GPU; run this where there is one, with NVIDIA's driver")
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    if first == "":
        refuse("CUDA_VISIBLE_DEVICES is empty, so that no GPU is seen; name the one that is to be used, or unset it")
    line = lines[int(first)] if first.isdigit() and int(first) < len(lines) else lines[0]
    name, capability, driver, memory = [one.strip() for one in line.split(",")]
    return {"name": name, "capability": capability, "driver": driver, "memory_mebibytes": int(memory) if memory.isdigit() else 0}


def prepare_device(check, options):
    """Builds for the GPU. Refuses before a minute of compiling."""
    nvcc, there = programs.find_nvcc()
    if not there:
        refuse(f"there is no nvcc (looked for {nvcc}); install the CUDA Toolkit, or name its folder with CUDA_HOME")
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        refuse(f"there is no {compiler}; install a C++20 compiler, or name one with CXX")
    device = look_for_device()
    architecture = device["capability"].replace(".", "")
    if not architecture.isdigit() or int(architecture) < 80:
        refuse(f"{device['name']} has compute capability {device['capability']}, and the kernels need 8.0 or more; use a newer GPU")
    includes, missing = programs.include_folders(compiler, options.deps)
    if missing:
        refuse(f"the headers of {', '.join(missing)} are not there; install them, or name a folder that has them with --deps")
    release = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False).stdout.strip().splitlines()
    check.result["device"] = device | {"nvcc": release[-1] if release else "", "processor_cores": os.cpu_count(),
                                       "machine": platform.machine()}
    folder = pathlib.Path(os.environ.get("HEDDLE_BUILD", programs.ROOT / "build"))
    folder = folder.with_name(f"{folder.name}-device-check") / f"sm_{architecture}"
    begin = time.monotonic()
    # What is built last gets little of the time if building takes more.
    builder = programs.Builder(folder.resolve(), nvcc, compiler, architecture, includes, begin + 0.45 * check.left())
    check.result["built"] = builder.build()
    for one in check.result["built"]:
        if one["status"] == "built":
            check.commands[one["name"]] = [builder.folder / one["name"]]
        else:
            check.cut(one["name"], f"compiling it failed; see {one['log']}" if one["status"] == "failed" else
                      f"it was not compiled after {one['seconds']:.0f} s")
    say(f"built {len(check.commands)} of {len(check.result['built'])} in {time.monotonic() - begin:.0f} s")


def prepare_emulation(check, build):
    """The programs of a folder of builds that are there."""
    at = pathlib.Path(build).resolve()
    emulation = at / "tests" / "emulation"
    if not emulation.is_dir():
        refuse(f"--emulated: {at} is no folder of builds with the emulated device; build heddle there")
    backend = emulation / "emulation-backend"
    there = {name: [backend, f"--source-file=*/{pathlib.Path(source).name}"] for name, source in programs.TESTS.items()
             if not name.startswith(("model", "shared"))}
    there |= {name: [emulation / f"emulation-{name.replace('_', '-')}"] for name in programs.TESTS if name not in there}
    there |= {"train-tiny": [emulation / "emulation-train"], "train-tiny-host": [at / "tools" / "train_program" / "train-tiny-serial"],
              "device-kernels": [emulation / "emulation-device-kernels"], "gpt2-124m": [emulation / "emulation-device-step"]}
    check.commands = {name: command for name, command in there.items() if command[0].is_file()}
    check.result["device"] = {"name": "emulated device", "capability": "9.0", "driver": "none", "memory_mebibytes": 1024, "nvcc": "none",
                              "processor_cores": os.cpu_count(), "machine": platform.machine()}


def minutes(text):
    value = float(text)
    if not 0 < value <= 600:
        raise argparse.ArgumentTypeError(f"is {text}; it must be above 0, and at most 600")
    return value


def main():
    parser = argparse.ArgumentParser(prog="tools/device-check", add_help=False)
    parser.add_argument("--out", default="out-device")
    parser.add_argument("--deps", action="append", default=[])
    parser.add_argument("--minutes", type=minutes, default=10)
    parser.add_argument("--emulated")
    options = parser.parse_args()
    for folder in options.deps:
        if not pathlib.Path(folder).is_dir():
            refuse(f"--deps: {folder} is no folder; name one that has headers")
    check = Check(options)
    try:
        check.logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse(f"--out: {check.out} cannot be made ({error.strerror}); name a folder that can")
    if check.emulated:
        prepare_emulation(check, options.emulated)
    else:
        prepare_device(check, options)
    check.save()
    for part in (check.tests, check.training, check.kernels, check.steps, check.peers, check.sanitizer):
        part()
        check.save()
    check.result["complete"] = True
    check.save()
    passed = check.passed()
    print(f"{'all passed' if passed else 'something failed'}; {len(check.result['cut'])} left out; see {check.out / 'results.md'}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
