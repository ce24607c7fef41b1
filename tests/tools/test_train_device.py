#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the small model by the program for devices, on the emulated one, beside the host's; looks at what tools/train says where
something is missing; and starts the program that nvcc linked: test_train_device.py ROOT SERIAL EMULATED LINKED

SERIAL is the host's program of one rank, EMULATED that for two ranks that share a device, LINKED the same by nvcc; "none" where one
is not there."""
import csv
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ARGUMENTS = dict(zip(("ROOT", "SERIAL", "EMULATED", "LINKED"), sys.argv[1:]))
ROOT, SERIAL = pathlib.Path(ARGUMENTS["ROOT"]), pathlib.Path(ARGUMENTS["SERIAL"])
EMULATED, LINKED = (None if ARGUMENTS[name] == "none" else pathlib.Path(ARGUMENTS[name]) for name in ("EMULATED", "LINKED"))
TEXT = "".join(f"line {n} of {n * n} words, and {n % 7} more\n" for n in range(30))


class Device(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)
        self.text = self.at / "text.txt"
        self.text.write_text(TEXT)

    def trained(self, program):
        """The lines that it printed, and the rows of its steps."""
        out = self.at / program.name
        ended = subprocess.run([program, "--data", self.text, "--steps", "2", "--warmup", "0", "--eval-every", "0", "--sample", "2",
                                "--out", out], capture_output=True, text=True, timeout=400)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        with open(out / "metrics.csv", newline="") as file:
            return ended.stdout.splitlines(), list(csv.DictReader(file))[:-1]

    @unittest.skipIf(EMULATED is None, "NVIDIA's headers are not there")
    def test_a_device_trains_as_the_host(self):
        device, host = self.trained(EMULATED), self.trained(SERIAL)
        self.assertIn("on    emulated device, shared by 2 ranks", device[0])
        self.assertIn("on    the host, 1 rank", host[0])
        # In fp32 sums in another order: roundings of 6e-8 of losses near 5, grown by two updates that divide each gradient by
        # its own size (seen: 2e-7). A tenth of a percent of the learning rate shows as 7e-5 of the second loss.
        for a, b in zip(device[1], host[1], strict=True):
            self.assertAlmostEqual(float(a["train_loss"]), float(b["train_loss"]), delta=5e-6)
            self.assertAlmostEqual(float(a["gradient_norm"]) / float(b["gradient_norm"]), 1, delta=5e-6)
        last = [re.fullmatch(r"validation loss (\d\.\d{4})", lines[-1]) for lines in (device[0], host[0])]
        # The same to a rounding of the last of its four decimals.
        self.assertAlmostEqual(float(last[0][1]), float(last[1][1]), delta=1.01e-4)

    @unittest.skipIf(EMULATED is None, "NVIDIA's headers are not there")
    def test_threads_of_a_rank_are_the_hosts(self):
        ended = subprocess.run([EMULATED, "--data", self.text, "--threads-per-rank", "2"], capture_output=True, text=True, timeout=100)
        self.assertEqual(ended.returncode, 2)
        self.assertIn("--threads-per-rank", ended.stderr)

    @unittest.skipIf(LINKED is None, "there is no nvcc")
    def test_the_linked_program(self):
        hidden = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
        ended = subprocess.run([LINKED, "--data", self.text, "--out", self.at], capture_output=True, text=True, timeout=100, env=hidden)
        self.assertEqual(ended.returncode, 1, ended.stdout)
        for part in ("this process sees none", "nvidia-smi", "CUDA_VISIBLE_DEVICES", "--device host"):
            self.assertIn(part, ended.stderr)


class Script(unittest.TestCase):
    """tools/train with an nvcc and GPUs that are what a test says."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)
        self.toolkit = self.at / "cuda"
        (self.toolkit / "bin").mkdir(parents=True)

    def command(self, path, text):
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def machine(self, *capabilities, nvcc="exit 0"):
        self.command(self.toolkit / "bin" / "nvcc", nvcc)
        if capabilities:
            (self.at / "gpus").write_text("".join(f"{one}\n" for one in capabilities))
            self.command(self.at / "nvidia-smi", f"""[ "$1" = -i ] || exec cat {self.at}/gpus
[[ "$2" =~ ^[0-9]+$ ]] && sed -n "$(($2 + 1))p" {self.at}/gpus""")
        else:
            self.command(self.at / "nvidia-smi", "exit 9")

    def run_script(self, *arguments, **environment):
        """With builds that do nothing but say what they were asked for."""
        self.command(self.at / "meson", f'echo "$*" >> {self.at}/asked; mkdir -p "$2"; touch "$2/build.ninja"')
        self.command(self.at / "ninja", f'echo "${{@: -1}}" >> {self.at}/asked; exit 1')
        base = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        environment = base | {"PATH": f"{self.at}:{os.environ['PATH']}", "CUDA_HOME": str(self.toolkit),
                              "HEDDLE_BUILD": str(self.at / "build")} | environment
        return subprocess.run([ROOT / "tools" / "train", *arguments], capture_output=True, text=True, timeout=100, env=environment)

    def refused(self, words, *arguments, **environment):
        ended = self.run_script(*arguments, **environment)
        self.assertEqual(ended.returncode, 2, ended.stderr)
        for word in ("tools/train: ", *words):
            self.assertIn(word, ended.stderr)
        self.assertFalse((self.at / "asked").exists(), "something was built first")

    def built(self, *arguments, **environment):
        """The target that it builds, and what it says of ranks."""
        asked = self.at / "asked"
        asked.unlink(missing_ok=True)
        ended = self.run_script(*arguments, **environment)
        said = [line for line in ended.stderr.splitlines() if "share the first GPU" in line]
        return asked.read_text().splitlines()[-1].rpartition("/")[2], bool(said)

    def test_what_is_missing_is_named_before_anything_is_built(self):
        self.refused(["there is no nvcc", "CUDA Toolkit", "CUDA_HOME"], "--device", "cuda")
        self.machine()
        self.refused(["nvidia-smi shows no GPU", "driver", "leave out --device cuda"], "--device=cuda")
        self.machine("7.5")
        self.refused(["capability 75", "80 or more"], "--device", "cuda")
        self.machine("9.0")
        self.refused(["CUDA_VISIBLE_DEVICES is empty"], "--device", "cuda", CUDA_VISIBLE_DEVICES="")
        self.refused(["the GPU 3", "CUDA_VISIBLE_DEVICES"], "--device", "cuda", CUDA_VISIBLE_DEVICES="3")
        self.refused(["--ranks nccl", "8 ranks", "1 GPUs", "--ranks shared"], "--device", "cuda", "--ranks", "nccl")
        self.machine("9.0", "9.0", nvcc="exit 1")
        self.refused(["--ranks nccl", "nccl.h", "libnccl-dev"], "--device", "cuda", "--ranks", "nccl", "--plan", "dp2")
        self.machine("9.0", "7.5")
        self.refused(["the GPU 1", "capability 75"], "--device", "cuda", "--plan", "dp2")

    def test_options_that_do_not_go_together(self):
        self.machine("9.0")
        self.refused(["there is no 'tpu'", "host or cuda"], "--device", "tpu")
        self.refused(["there is no 'mpi'", "auto, shared or nccl"], "--device", "cuda", "--ranks", "mpi")
        self.refused(["--ranks", "give --device cuda"], "--ranks", "shared")
        self.refused(["--threads-per-rank", "of the host"], "--device", "cuda", "--threads-per-rank", "2")
        self.refused(["--list-plans: takes --model alone"], "--device", "cuda", "--list-plans")

    def test_ranks_have_a_device_each_where_there_are_enough(self):
        self.machine("9.0", "8.0", "9.0")
        self.assertEqual(self.built("--device", "cuda", "--plan", "dp2"), ("train-tiny-dp2-nccl", False))
        # One program, for each kind of the GPUs that it uses, once.
        self.assertIn("-Ddevice_architectures=80,90\n", (self.at / "asked").read_text())
        self.assertEqual(self.built("--device", "cuda", "--plan", "dp2", CUDA_VISIBLE_DEVICES="0,2,1")[0], "train-tiny-dp2-nccl")
        self.assertIn("-Ddevice_architectures=90\n", (self.at / "asked").read_text())
        self.assertEqual(self.built("--device", "cuda", "--plan", "dp2", "--ranks", "shared"), ("train-tiny-dp2-shared", False))
        self.assertEqual(self.built("--device", "cuda", "--plan", "dp2-pp2-tp2", "--precision", "bf16_mixed"),
                         ("train-tiny-dp2-pp2-tp2-bf16_mixed-shared", True))
        self.assertEqual(self.built("--device", "cuda", "--plan", "serial"), ("train-tiny-serial-shared", False))
        self.assertEqual(self.built("--device", "cuda", "--plan", "dp2", CUDA_VISIBLE_DEVICES="1"), ("train-tiny-dp2-shared", True))
        self.assertIn("-Ddevice_architectures=80\n", (self.at / "asked").read_text())
        self.built("--device", "cuda", "--plan", "serial", CXX="g++")
        self.assertIn("-Ddevice_architectures=90 -Ddevice_compiler=g++\n", (self.at / "asked").read_text())
        self.machine("9.0", "9.0", nvcc="exit 1")
        self.assertEqual(self.built("--device", "cuda", "--plan", "dp2"), ("train-tiny-dp2-shared", True))

    def test_the_host_needs_none_of_it(self):
        self.assertEqual(self.built("--plan", "dp2"), ("train-tiny-dp2", False))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
