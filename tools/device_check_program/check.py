#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/device-check does: see its --help, and docs/reference/device-check.md for what the results are."""
import argparse
import collections
import csv
import datetime
import json
import math
import os
import pathlib
import platform
import random
import re
import shutil
import statistics
import sys
import time

import children
import programs
import report

# Of 200 steps on these verses at a rate of 1e-3 a rate that is 1e-6 off, about as much as rounding does, shows as 1e-5 of a loss; one
# that is a tenth of a percent off as 3e-2.
TRAINING = {"steps": 200, "train_loss_tolerance": 1e-3, "validation_tolerance": 1e-3}
STEPS = 20
# Exit statuses: of device-step where the ledger's bytes are not free on the device, and of compute-sanitizer where it finds an error.
NO_ROOM, FOUND = 3, 99
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


# How a program ended: its status (None: it had not ended after the time for it), seconds, standard output, and whether that was
# because the time for everything was up.
Ran = collections.namedtuple("Ran", "status seconds said cut")


def no_number(word):
    raise ValueError(f"{word} is no number")


def objects(text):
    """Those of the lines that begin as a JSON object; ValueError where one is none."""
    return [json.loads(line, parse_constant=no_number) for line in text.splitlines() if line.startswith("{")]


def version():
    """What git says of these sources, or their version where they are no clone."""
    if (programs.ROOT / ".git").exists():
        status, said = children.ask(["git", "-C", programs.ROOT, "describe", "--always", "--dirty", "--tags"], 20)
        if status == 0:
            return said.strip()
    return re.search(r"version: '([^']+)'", (programs.ROOT / "meson.build").read_text())[1]


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
        self.nvcc = None
        # Numbered as nvidia-smi numbers them, whatever the user has set.
        self.environment = os.environ | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": first_visible()}
        self.result = {"schema": 1, "complete": False, "emulated": self.emulated,
                       "begun": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "version": version(),
                       "minutes": options.minutes, "device": {}, "built": [], "tests": [], "training": None, "limits": {}, "kernels": [],
                       "steps": [], "peers": [], "sanitizer": [], "cut": [], "seconds": 0}

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

    def run(self, name, command, least=1.0, most=120.0):
        """How a program ended, or nothing where there is no time for it; then, and where the time was up, it is in `cut`."""
        if self.left() < least:
            self.cut(name, f"{max(self.left(), 0):.0f} s were left, and it needs {least:.0f} at least")
            return None
        log = self.logs / f"{name.replace(' ', '-')}.txt"
        begin = time.monotonic()
        limit = min(most, self.left())
        with open(log, "w+", errors="replace") as file, open(log.with_suffix(".errors.txt"), "w") as errors:
            status, _ = children.run(command, limit, stdout=file, stderr=errors, env=self.environment)
            file.seek(0)
            said = file.read()
        seconds = round(time.monotonic() - begin, 2)
        cut = status is None and limit < most
        if cut:
            self.cut(name, f"it had not ended after {seconds:.0f} s, when the time was up")
        if status is None:
            said = said[:said.rfind("\n") + 1]  # without what it was about to say
        return Ran(status, seconds, said, cut)

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
            if ran is None or ran.cut:
                continue
            passed = ran.status == 0
            self.result["tests"].append({"name": name, "passed": passed, "seconds": ran.seconds, "left_out": leave,
                                         "said": [] if passed else self.fault_of(name)})
            say(f"{'passed' if passed else 'FAILED'}: {name} ({ran.seconds} s)")
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
            if ran is None or ran.cut:
                return
            fault = self.fault_of(name) if ran.status != 0 else []
            try:
                with open(out / "metrics.csv", newline="") as file:
                    rows = list(csv.DictReader(file))
                both[name] = {"losses": [float(row["train_loss"]) for row in rows[:-1]], "seconds": ran.seconds,
                              "validation": float(ran.said.strip().splitlines()[-1].split()[-1])}
                losses = both[name]["losses"]
                if not losses or len(losses) != len(both["train-tiny-host"]["losses"]):
                    fault = fault or [f"it has {len(losses)} losses"]
                if not all(map(math.isfinite, [*losses, both[name]["validation"]])):
                    fault = fault or ["a loss is not finite"]
            except (OSError, KeyError, TypeError, ValueError, IndexError) as error:
                fault = fault or [f"its losses cannot be read: {error}"]
            if fault:
                self.result["training"] = {"steps": steps, "passed": False, "said": [f"{name}:", *fault]}
                return
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
        try:
            lines = objects(ran.said)
            self.rates(lines)
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            self.failed("device-kernels", [f"what it prints is not as expected: {error!r}"])
            return
        if ran.status != 0 and not ran.cut:
            self.failed("device-kernels")
        for name in [one["name"] for one in lines if one["kind"] == "device"]:
            # A part of a device adds to its name what part it is.
            if not name.startswith(self.result["device"]["name"]):
                self.failed("device-kernels", [f"it ran on {name}, and nvidia-smi calls this device {self.result['device']['name']}"])

    def rates(self, lines):
        """Each kernel's share of the limits, as far as they were measured."""
        limits = {}
        for line in lines:
            if line["kind"] == "limit":
                limits[line["unit"]] = max(limits.get(line["unit"], 0), line["amount"] / line["seconds"])
        kernels = [{key: line[key] for key in ("name", "type", "unit", "amount", "seconds")} |
                   {"per_second": line["amount"] / line["seconds"], "share": line["amount"] / line["seconds"] / limits[line["unit"]]}
                   for line in lines if line["kind"] == "kernel" and line["unit"] in limits]
        names = {"byte": "copy_bytes_per_second", "flop": "product_flop_per_second"}
        self.result["limits"], self.result["kernels"] = {names[unit]: rate for unit, rate in limits.items()}, kernels

    def steps(self):
        for name in programs.MODELS:
            if not self.available(name):
                continue
            ran = self.run(name, [*self.commands[name], STEPS if not self.emulated else 1], least=10, most=120)
            if ran is None or ran.cut:
                continue
            try:
                if ran.status == NO_ROOM:
                    lacking = objects(ran.said)[-1]
                    self.cut(name, f"the ledger has {lacking['ledger_bytes']} bytes, and {lacking['free_bytes']} are free on the device")
                    continue
                if ran.status != 0:
                    self.failed(name)
                    continue
                got = objects(ran.said)[-1]
                median = statistics.median(got["seconds"])
                limit = self.result["limits"].get("product_flop_per_second")
                self.result["steps"].append({
                    "name": name, "parameters": got["parameters"], "tokens_per_step": got["tokens_per_step"], "seconds": median,
                    "tokens_per_second": got["tokens_per_step"] / median, "flop_per_second": got["flop_per_step"] / median,
                    "utilisation": got["flop_per_step"] / median / limit if limit else None, "ledger_bytes": got["ledger_bytes"],
                    "allocated_bytes": got["allocated_bytes"], "device_bytes": got["device_bytes"],
                    "passed": got["ledger_bytes"] == got["allocated_bytes"], "last_loss": got["losses"][-1]})
            except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as error:
                self.failed(name, [f"what it prints is not as expected: {error!r}"])
            self.save()

    def failed(self, name, said=None):
        self.result["tests"].append({"name": name, "passed": False, "seconds": 0, "left_out": [], "said": said or self.fault_of(name)})
        say(f"FAILED: {name}")

    def peers(self):
        if self.emulated:
            return
        sees = "import torch, sys; sys.exit(not torch.cuda.is_available())"
        python = next((one for one in (sys.executable, "python3", "/usr/bin/python3", "python") if shutil.which(one) and
                       children.ask([one, "-c", sees], min(60, self.left()), env=self.environment)[0] == 0), None)
        if python is None:
            self.cut("PyTorch", "no Python here has a PyTorch that sees the GPU")
            return
        for model, how, least in PEERS:
            layers, heads, width, sequences = programs.MODELS[model]
            name = f"pytorch {model} {how}"
            ran = self.run(name, [python, programs.ROOT / "bench/peers/torch_device.py", "--how", how, "--layers", layers, "--heads", heads,
                                  "--width", width, "--sequences", sequences, "--context", programs.CONTEXT, "--vocabulary",
                                  programs.VOCABULARY, "--steps", STEPS], least=least, most=200)
            if ran is None or ran.cut:
                continue
            if ran.status != 0:
                self.cut(name, "it failed: " + " / ".join(self.fault_of(name)[-2:]))
                continue
            try:
                got = objects(ran.said)[-1]
                median = statistics.median(got["seconds"])
                ours = next((one for one in self.result["steps"] if one["name"] == model), None)
                self.result["peers"].append({"name": model, "how": how, "version": got["version"], "seconds": median,
                                             "tokens_per_second": got["tokens_per_step"] / median, "device_bytes": got["device_bytes"],
                                             "times_slower_than_heddle": median / ours["seconds"] if ours else None})
            except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as error:
                self.cut(name, f"what it prints is not as expected: {error!r}")
            self.save()

    def sanitizer(self):
        if self.emulated:
            return
        beside = [str(folder) for path in (pathlib.Path(self.nvcc), pathlib.Path(self.nvcc).resolve()) for folder in [path.parent]]
        tool = shutil.which("compute-sanitizer", path=os.pathsep.join([*beside, os.environ.get("PATH", ""), "/usr/local/cuda/bin"]))
        if tool is None:
            self.cut("compute-sanitizer", "it is not there")
            return
        for name, kind in (("graph", "memcheck"), ("product", "memcheck"), ("graph", "racecheck")):
            if not self.available(name):
                continue
            leave = [f"{one}*" for one in programs.NOT_ON_A_DEVICE.get(name, [])]
            ran = self.run(f"{kind} {name}", [tool, f"--tool={kind}", f"--error-exitcode={FOUND}", *self.commands[name],
                                              *([f"--test-case-exclude={','.join(leave)}"] if leave else [])], least=20, most=90)
            if ran is None or ran.cut:
                continue
            if ran.status not in (0, FOUND):  # it could not look, or the test itself failed, which the tests say
                last = self.fault_of(f"{kind} {name}")[-1:] or ["it said nothing"]
                self.cut(f"{kind} {name}", (f"it ended with status {ran.status}" if ran.status is not None else
                                            f"it had not ended after {ran.seconds:.0f} s") + f": {last[0]}")
                continue
            self.result["sanitizer"].append({"name": name, "tool": kind, "passed": ran.status == 0, "seconds": ran.seconds,
                                             "said": [] if ran.status == 0 else self.fault_of(f"{kind} {name}")})
            self.save()

    def passed(self):
        parts = self.result["tests"] + self.result["steps"] + self.result["sanitizer"]
        training = self.result["training"]
        return (self.result["tests"] != [] and all(one["passed"] for one in parts) and (training is None or training["passed"]) and
                not any(one["status"] == "failed" for one in self.result["built"]))


def first_visible():
    """The device that is used, as CUDA_VISIBLE_DEVICES names it: a number or an identifier."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()


def look_for_device(check):
    """The GPU that is used, from nvidia-smi."""
    ask = ["nvidia-smi", "--query-gpu=name,compute_cap,driver_version,memory.total", "--format=csv,noheader,nounits"]
    status, said = children.ask(ask, min(30, check.left()))
    if status is None:
        refuse("nvidia-smi did not answer in time; see that the driver works")
    lines = said.strip().splitlines() if status == 0 else []
    if not lines:
        refuse("nvidia-smi shows no GPU; run this where there is one, with NVIDIA's driver")
    first = first_visible()
    if first == "":
        refuse("CUDA_VISIBLE_DEVICES is empty, so that no GPU is seen; name the one that is to be used, or unset it")
    status, said = children.ask([*ask, "-i", first], min(30, check.left()))
    one = said.strip().splitlines() if status == 0 else []
    # It knows no part of a device by its identifier; where all devices are alike, that does not matter.
    if len(one) != 1 and (first.isdigit() or len(set(lines)) > 1):
        refuse(f"nvidia-smi does not know the GPU {first} of CUDA_VISIBLE_DEVICES; name one that nvidia-smi -L shows")
    name, capability, driver, memory = [part.strip() for part in (one or lines)[0].split(",")]
    return {"name": name, "capability": capability, "driver": driver, "memory_mebibytes": int(memory) if memory.isdigit() else 0}


def look_for_tools(check, options):
    """Refuses before a minute of compiling; the builder of what is to be built."""
    nvcc, there = programs.find_nvcc()
    if not there:
        refuse(f"there is no nvcc (looked for {nvcc}); install the CUDA Toolkit, or name its folder with CUDA_HOME")
    compiler = os.environ.get("CXX") or "g++"
    if shutil.which(compiler) is None:
        refuse(f"there is no {compiler}; install a C++20 compiler, or name one with CXX")
    device = look_for_device(check)
    architecture = device["capability"].replace(".", "")
    if not architecture.isdigit() or int(architecture) < 80:
        refuse(f"{device['name']} has compute capability {device['capability']}, and the kernels need 8.0 or more; use a newer GPU")
    includes, missing = programs.include_folders(compiler, options.deps)
    if missing:
        refuse(f"the headers of {', '.join(missing)} are not there; install them, or name a folder that has them with --deps")
    release = children.ask([nvcc, "--version"], min(20, check.left()))[1].strip().splitlines()
    check.nvcc = nvcc
    check.result["device"] = device | {"nvcc": release[-1] if release else "", "processor_cores": os.cpu_count(),
                                       "machine": platform.machine()}
    folder = pathlib.Path(os.environ.get("HEDDLE_BUILD", programs.ROOT / "build"))
    folder = folder.with_name(f"{folder.name}-device-check") / f"sm_{architecture}"
    builder = programs.Builder(folder.resolve(), nvcc, compiler, architecture, includes, time.monotonic() + min(60, check.left()),
                               bool(os.environ.get("CXX")))
    fault = builder.probe(check.environment)
    if fault:
        refuse("a program of three lines that asks cuBLASLt for its version cannot be built and run by nvcc:\n" + fault)
    return builder


def build(check, builder):
    begin = time.monotonic()
    # What is built last gets little of the time if building takes more.
    builder.until = begin + min(240, 0.45 * check.left())
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
    children.end_with_this_program()
    try:
        return run(options)
    finally:
        children.end_all()


def run(options):
    check = Check(options)
    builder = None
    if check.emulated:
        prepare_emulation(check, options.emulated)
    else:
        builder = look_for_tools(check, options)
    try:
        check.logs.mkdir(parents=True, exist_ok=True)
        check.save()  # so that nobody takes the results of an earlier run for this one's
    except OSError as error:
        refuse(f"--out: {check.out} cannot be written ({error.strerror}); name a folder that can")
    if builder is not None:
        build(check, builder)
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
