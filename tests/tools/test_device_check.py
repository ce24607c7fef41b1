#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tools/device-check with the emulated device's programs, with a toolkit that makes scripts, and where something is missing:
test_device_check.py ROOT BUILD emulated|none NVCC|none"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT, BUILD = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
EMULATED, NVCC = sys.argv[3] == "emulated", sys.argv[4]
sys.path.insert(0, str(ROOT / "tools" / "device_check_program"))
import programs  # noqa: E402
import report  # noqa: E402

NUMBER = (int, float)
OPTIONAL = (int, float, type(None))
# Every key of results.json: a type, or what the objects of a list have. docs/reference/device-check.md says what they mean.
SCHEMA = {
    "schema": int, "complete": bool, "emulated": bool, "begun": str, "version": str, "minutes": NUMBER, "seconds": NUMBER,
    "device": {"name": str, "capability": str, "driver": str, "memory_mebibytes": int, "nvcc": str, "processor_cores": int,
               "machine": str},
    "built": [{"name": str, "status": str, "seconds": NUMBER, "log": str}],
    "tests": [{"name": str, "passed": bool, "seconds": NUMBER, "left_out": list, "said": list}],
    "training": {"steps": int, "passed": bool, "largest_relative_difference": NUMBER, "tolerance": NUMBER, "first_loss": NUMBER,
                 "device_validation_loss": NUMBER, "host_validation_loss": NUMBER, "device_seconds": NUMBER, "said": list},
    "limits": {"copy_bytes_per_second": NUMBER, "product_flop_per_second": NUMBER},
    "kernels": [{"name": str, "type": str, "unit": str, "amount": NUMBER, "seconds": NUMBER, "per_second": NUMBER, "share": NUMBER}],
    "steps": [{"name": str, "parameters": int, "tokens_per_step": int, "seconds": NUMBER, "tokens_per_second": NUMBER,
               "flop_per_second": NUMBER, "utilisation": OPTIONAL, "ledger_bytes": int, "allocated_bytes": int, "device_bytes": int,
               "passed": bool, "last_loss": NUMBER}],
    "peers": [{"name": str, "how": str, "version": str, "seconds": NUMBER, "tokens_per_second": NUMBER, "device_bytes": int,
               "times_slower_than_heddle": OPTIONAL}],
    "sanitizer": [{"name": str, "tool": str, "passed": bool, "seconds": NUMBER, "said": list}],
    "cut": [{"what": str, "why": str}],
}
# A program that "nvcc" makes: by its name it does what the real one does, or nothing. FAILS, SLOW, HANGS (after its first line),
# SPOILT (prints what is no JSON) and NO_ROOM are names.
SCRIPT = r"""#!/bin/bash
name=$(basename "$0")
[ "$name" != "$FAILS" ] || { echo "a case failed"; exit 1; }
[ "$name" != "$SLOW" ] || { echo $$ > "$0.pid"; sleep 60; }
[ "$name" != "$SPOILT" ] || { echo '{"seconds": [1], "losses": [nan]}'; exit 0; }
[ "$name" != "$NO_ROOM" ] || { echo '{"ledger_bytes": 640, "free_bytes": 64}'; exit 3; }
case "$name" in
  device-kernels)
    echo "order $CUDA_DEVICE_ORDER, device $CUDA_VISIBLE_DEVICES"
    echo '{"kind": "device", "name": "'${DEVICE:-Planted GPU}'"}'
    for seconds in 2e-3 1e-3; do
      echo '{"kind": "limit", "name": "copy", "type": "fp32", "unit": "byte", "amount": 4e9, "seconds": '$seconds'}'
      [ "$name" != "$HANGS" ] || { printf '{"kind": "ker'; sleep 60; }
      echo '{"kind": "limit", "name": "product", "type": "bf16", "unit": "flop", "amount": 1e12, "seconds": '$seconds'}'
    done
    echo '{"kind": "kernel", "name": "add", "type": "bf16", "unit": "byte", "amount": 2e9, "seconds": 1e-3}' ;;
  gpt2*)
    echo '{"parameters": 7, "tokens_per_step": 100, "flop_per_step": 1e12, "ledger_bytes": 64, "allocated_bytes": '${BYTES:-64}',
      "device_bytes": 128, "seconds": [4e-3, 2e-3, 1e-3], "losses": [3, 2, 1]}' | tr -d '\n' ;;
  train-tiny*)
    for argument in "$@"; do case "$argument" in --out=*) out="${argument#*=}" ;; esac; done
    mkdir -p "$out"
    loss=5.5; [ "$name" = train-tiny-host ] || loss="${LOSS:-5.5}"
    printf 'step,tokens,train_loss\n0,1,%s\n1,1,\n' "$loss" > "$out/metrics.csv"
    echo "validation loss $loss" ;;
esac
"""


def fits(value, schema, where="results"):
    """What of a value is not as the schema says."""
    if isinstance(schema, dict):
        if not isinstance(value, dict) or set(value) != set(schema):
            return [f"{where}: has {sorted(value) if isinstance(value, dict) else value}, not {sorted(schema)}"]
        return [fault for key in schema for fault in fits(value[key], schema[key], f"{where}.{key}")]
    if isinstance(schema, list):
        return [fault for n, one in enumerate(value) for fault in fits(one, schema[0], f"{where}[{n}]")]
    return [] if isinstance(value, schema) and (schema is bool or not isinstance(value, bool)) else [f"{where}: is {value!r}"]


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)
        self.out = self.at / "out"

    def command(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def check(self, *arguments, **environment):
        base = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        return subprocess.run([ROOT / "tools" / "device-check", "--out", self.out, *map(str, arguments)], capture_output=True, text=True,
                              timeout=280, env=base | environment)

    def results(self):
        result = json.loads((self.out / "results.json").read_text())
        self.assertEqual(report.markdown(result), (self.out / "results.md").read_text())
        self.assertEqual([path.name for path in self.out.iterdir() if path.name.endswith(".part")], [])
        return result


@unittest.skipUnless(EMULATED, "the emulated device is not built here")
class Emulated(Folder):
    def test_from_end_to_end(self):
        ended = self.check("--emulated", BUILD)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        result = self.results()
        self.assertEqual(fits(result, SCHEMA), [])
        self.assertTrue(result["complete"] and result["emulated"])
        self.assertEqual(result["device"]["name"], "emulated device")
        self.assertIn("No figure here says anything of speed", (self.out / "results.md").read_text())
        tested = {one["name"] for one in result["tests"]}
        self.assertLessEqual({"graph", "product", "primitives", "primitives_of_sequences", "narrow_primitives"}, tested)
        named = {one["name"] for one in result["kernels"]}
        self.assertLessEqual({"layer_norm", "attention", "attention_backward", "adamw", "embedding", "swiglu", "cross_entropy_backward"},
                             named)
        self.assertEqual([one["name"] for one in result["steps"]], ["gpt2-124m"])
        self.assertEqual(result["steps"][0]["ledger_bytes"], result["steps"][0]["allocated_bytes"])
        self.assertGreater(result["steps"][0]["parameters"], 1000)
        self.assertLess(result["training"]["largest_relative_difference"], 1e-6)
        # What no build has, and the models that are whole programs: said, not passed over.
        self.assertLessEqual({"gpt2-350m", "gpt2-1.5b"}, {one["what"] for one in result["cut"]})


class Planted(Folder):
    """With a toolkit, a GPU and headers that are planted."""

    def setUp(self):
        super().setUp()
        self.tools, self.deps = self.at / "cuda", self.at / "deps"
        (self.at / "script").write_text(SCRIPT)
        make = f"""#!/bin/bash
echo "$*" >> {self.at}/calls
case "$*" in *--version*) echo planted 1.0; exit 0 ;; *-E*) exit "${{NO_HEADERS:-1}}" ;; esac
[ -z "$SLOW_COMPILER" ] || [[ "$*" == *probe* ]] || {{ echo $$ > {self.at}/compiling.pid; sleep 60; }}
while [ "$1" != -o ]; do shift; done
[[ "$2" != *"$UNCOMPILED"* ]] || [ -z "$UNCOMPILED" ] || {{ echo "an error of the compiler"; exit 1; }}
cp {self.at}/script "$2"; chmod +x "$2"
"""
        self.command(self.tools / "bin" / "nvcc", make)
        self.command(self.at / "bin" / "planted-cxx", make)
        self.command(self.tools / "bin" / "compute-sanitizer", '#!/bin/bash\necho "of the sanitizer"; exit "${SANITIZER:-0}"\n')
        # A PyTorch without a GPU, whatever this machine's Pythons have.
        (self.at / "python").mkdir()
        (self.at / "python" / "torch.py").write_text("class cuda:\n    is_available = staticmethod(lambda: False)\n")
        self.gpu("Planted GPU, 9.0, 555.1, 81559")
        for header in programs.HEADERS:
            (self.deps / header.split("/")[0].lower() / "include" / header).parent.mkdir(parents=True)
            (self.deps / header.split("/")[0].lower() / "include" / header).write_text("")

    def gpu(self, *lines):
        """What nvidia-smi says of the GPUs; of one by its number, as the driver numbers them."""
        (self.at / "gpus").write_text("".join(f"{one}\n" for one in lines))
        self.command(self.at / "bin" / "nvidia-smi", f"""#!/bin/bash
[ -s {self.at}/gpus ] || exit 9
[ "${{@: -2:1}}" = -i ] || exec cat {self.at}/gpus
[[ "${{@: -1}}" =~ ^[0-9]+$ ]] && sed -n "$((${{@: -1}} + 1))p" {self.at}/gpus
""")

    def on(self, environment):
        return {"PATH": f"{self.at}/bin:{os.environ['PATH']}", "CUDA_HOME": str(self.tools), "CXX": "planted-cxx",
                "HEDDLE_BUILD": str(self.at / "build"), "PYTHONPATH": str(self.at / "python")} | environment

    def planted(self, *arguments, **environment):
        return self.check("--deps", self.deps, *arguments, **self.on(environment))

    def test_what_it_does_on_a_device(self):
        ended = self.planted()
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        result = self.results()
        self.assertEqual(fits(result, SCHEMA), [])
        self.assertEqual(result["device"]["name"], "Planted GPU")
        self.assertEqual([one["name"] for one in result["tests"]], list(programs.TESTS))
        self.assertTrue(all(one["status"] == "built" for one in result["built"]))
        # A rate is compared with the better of the two limits, a time is the median.
        self.assertEqual(result["kernels"][0]["share"], 0.5)
        self.assertEqual([one["name"] for one in result["steps"]], list(programs.MODELS))
        self.assertEqual((result["steps"][0]["tokens_per_second"], result["steps"][0]["utilisation"]), (50000, 0.5))
        left_out = {one["name"]: one["left_out"] for one in result["tests"]}
        self.assertEqual(len(left_out["product"]), 2)
        calls = (self.at / "calls").read_text()
        self.assertIn("arch=compute_90,code=sm_90", calls)
        self.assertIn(f"-isystem={(self.deps / 'eigen' / 'include').resolve()}", calls)
        self.assertNotIn("compute_80", calls)
        # The host's code by the compiler that was asked for, and the toolkit's libraries where the toolkit is.
        self.assertEqual(calls.count("-ccbin planted-cxx"), calls.count("arch=compute_90") + calls.count("-rpath="))
        self.assertIn(f"-lcublasLt -Xlinker -rpath={self.tools.resolve()}/lib64", calls)
        self.assertIn("order PCI_BUS_ID, device 0", (self.out / "logs" / "device-kernels.txt").read_text())
        self.assertEqual([(one["tool"], one["passed"]) for one in result["sanitizer"]],
                         [("memcheck", True), ("memcheck", True), ("racecheck", True)])

    def test_a_failure_is_the_results(self):
        for fault, where in (({"FAILS": "primitives"}, "primitives"), ({"LOSS": "5.6"}, "steps of `tiny` in fp32, **failed**"),
                             ({"LOSS": "nan"}, "Training `tiny` **failed**"), ({"BYTES": "65"}, "**failed**"),
                             ({"UNCOMPILED": "graph.o"}, "compiling it failed"), ({"FAILS": "device-kernels"}, "a case failed"),
                             ({"SPOILT": "device-kernels"}, "not as expected"), ({"DEVICE": "Other GPU"}, "it ran on Other GPU"),
                             ({"SANITIZER": "99"}, "of the sanitizer")):
            with self.subTest(fault=fault):
                ended = self.planted(**fault)
                self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
                self.results()
                self.assertIn(where, (self.out / "results.md").read_text())

    def test_one_models_failure_is_its_own(self):
        self.assertEqual(self.planted(SPOILT="gpt2-124m").returncode, 1)
        result = self.results()
        self.assertIn("not as expected", {one["name"]: "".join(one["said"]) for one in result["tests"]}["gpt2-124m"])
        self.assertEqual([one["name"] for one in result["steps"]], ["gpt2-350m", "gpt2-1.5b"])
        self.assertTrue(result["complete"])

    def test_what_says_nothing_of_heddle_is_left_out(self):
        ended = self.planted(NO_ROOM="gpt2-1.5b", SANITIZER="1")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        result = self.results()
        why = {one["what"]: one["why"] for one in result["cut"]}
        self.assertEqual(why["gpt2-1.5b"], "the ledger has 640 bytes, and 64 are free on the device")
        self.assertEqual(why["racecheck graph"], "it ended with status 1: of the sanitizer")
        self.assertEqual(result["sanitizer"], [])

    def test_lines_of_a_program_that_is_cut_are_kept(self):
        ended = self.planted("--minutes", "0.25", HANGS="device-kernels")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        result = self.results()
        self.assertEqual(result["limits"], {"copy_bytes_per_second": 2e12})
        self.assertIn("2,000.0 GB/s", (self.out / "results.md").read_text())
        self.assertIn("the time was up", {one["what"]: one["why"] for one in result["cut"]}["device-kernels"])

    def test_what_runs_ends_with_it(self):
        for fault, at in (({"SLOW": "graph"}, self.at / "build-device-check" / "sm_90" / "graph.pid"),
                          ({"SLOW_COMPILER": "1"}, self.at / "compiling.pid")):
            with self.subTest(fault=fault):
                self.out.mkdir(exist_ok=True)
                (self.out / "results.json").write_text('{"complete": true}')
                process = subprocess.Popen([ROOT / "tools" / "device-check", "--out", self.out, "--deps", self.deps],
                                           stderr=subprocess.PIPE, env=os.environ | self.on(fault))
                until = time.monotonic() + 60
                while not (at.exists() and at.read_text().strip()) and time.monotonic() < until:
                    time.sleep(0.05)
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=30)
                self.assertEqual(process.returncode, 128 + signal.SIGTERM)
                with self.assertRaises(ProcessLookupError):
                    os.kill(int(at.read_text()), 0)
                # Nor is an earlier run's result taken for this one's.
                self.assertFalse(self.results()["complete"])

    def test_a_device_by_its_number(self):
        self.gpu("Old GPU, 7.5, 555.1, 100", "Planted GPU, 9.0, 555.1, 81559")
        self.assertEqual(self.planted(CUDA_VISIBLE_DEVICES="1,0").returncode, 0)
        self.assertEqual(self.results()["device"]["name"], "Planted GPU")
        self.assertIn("order PCI_BUS_ID, device 1", (self.out / "logs" / "device-kernels.txt").read_text())

    def test_a_budget_cuts_the_list_and_says_so(self):
        begin = time.monotonic()
        ended = self.planted("--minutes", "0.2", SLOW="model_mixed")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertLess(time.monotonic() - begin, 55)  # and not the 60 s that it sleeps
        result = self.results()
        why = {one["what"]: one["why"] for one in result["cut"]}
        self.assertIn("the time was up", why["model_mixed"])
        self.assertIn("were left", why["device-kernels"])
        self.assertEqual(result["kernels"], [])
        ended = self.planted("--minutes", "0.1", SLOW_COMPILER="1")
        self.assertEqual(ended.returncode, 1)  # nothing was tested
        self.assertIn("was not compiled", {one["what"]: one["why"] for one in self.results()["cut"]}["graph"])

    def refused(self, words, *arguments, **environment):
        ended = self.planted(*arguments, **environment)
        self.assertEqual(ended.returncode, 2, ended.stdout + ended.stderr)
        for word in words:
            self.assertIn(word, ended.stderr)
        self.assertFalse((self.out / "results.json").exists())

    def test_what_is_missing_is_named(self):
        self.refused(["there is no nvcc", "CUDA Toolkit", "CUDA_HOME"], CUDA_HOME=str(self.at))
        self.refused(["there is no no-such-compiler"], CXX="no-such-compiler")
        self.refused(["--deps", "no folder"], "--deps", self.at / "nowhere")
        self.refused(["--minutes", "above 0"], "--minutes", "0")
        self.refused(["CUDA_VISIBLE_DEVICES is empty"], CUDA_VISIBLE_DEVICES="")
        self.refused(["does not know the GPU 5"], CUDA_VISIBLE_DEVICES="5")
        self.refused(["cuBLASLt", "an error of the compiler"], UNCOMPILED="probe.o")
        self.refused(["cuBLASLt", "a case failed"], FAILS="probe")
        self.gpu()
        self.refused(["nvidia-smi shows no GPU", "driver"])
        self.gpu("Old GPU, 7.5, 555.1, 100")
        self.refused(["Old GPU has compute capability 7.5", "8.0 or more"])
        self.gpu("Planted GPU, 9.0, 555.1, 81559")
        (self.deps / "cli" / "include" / "CLI" / "CLI.hpp").unlink()
        self.refused(["CLI11", "--deps"])

    def test_the_emulated_device_must_be_built(self):
        self.refused(["--emulated", "no folder of builds"], "--emulated", self.at)


@unittest.skipIf(NVCC == "none", "there is no nvcc")
class Linked(Folder):
    def test_nvcc_compiles_and_links_a_test(self):
        """One of its programs, for one architecture, by its own calls: the others differ in their sources."""
        includes, missing = programs.include_folders("g++", [])
        self.assertEqual(missing, [])
        builder = programs.Builder(self.at, NVCC, "g++", "90", includes, time.monotonic() + 250)
        # What it starts with: cuBLASLt's library is found where the toolkit has it, which no variable names.
        bare = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        self.assertEqual(builder.probe(bare), "")
        made = builder.build({"graph"})
        self.assertEqual({one["name"]: one["status"] for one in made if one["name"] == "graph"}, {"graph": "built"},
                         (self.at / "graph.log").read_text()[-2000:])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
