# SPDX-License-Identifier: Apache-2.0
"""What tools/device-check builds, and how: each program by one call of nvcc and one of the linker, many at a time."""
import concurrent.futures
import os
import pathlib
import platform
import shutil
import subprocess
import time

import children

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Sources whose cases compare the device with the host; those of tests/emulation are the emulation's own.
TESTS = {"graph": "tests/device/graph.cpp"} | {
    name: f"tests/emulation/{name}.cpp"
    for name in ("device_memory", "product", "primitives", "primitives_of_sequences", "narrow_primitives", "narrow_sequences",
                 "model_mixed", "shared_device_models", "shared_device_mixed")}
# Cases, by the beginnings of their names, of what only the emulated device finds, or of several devices; and of tf32, in which cuBLASLt
# may compute small or unaligned products in fp32, or cut their operands off instead of rounding them.
NOT_ON_A_DEVICE = {"product": ["products go to the stream in order", "what cuBLASLt refuses is thrown"],
                   "narrow_primitives": ["products in tf32 round their operands"],
                   "device_memory": ["an execution is of its thread"]}
# layers, heads, width, sequences of a step; context and vocabulary are GPT-2's.
MODELS = {"gpt2-124m": (12, 12, 768, 16), "gpt2-350m": (24, 16, 1024, 8), "gpt2-1.5b": (48, 25, 1600, 4)}
CONTEXT, VOCABULARY = 1024, 50257
HEADERS = {"Eigen/Core": "Eigen (libeigen3-dev)", "doctest/doctest.h": "doctest (doctest-dev)", "CLI/CLI.hpp": "CLI11 (libcli11-dev)"}


def include_folders(compiler, folders):
    """The folders that have HEADERS, and the names of those that are nowhere."""
    places = [pathlib.Path(one).resolve() for one in folders]
    places = [place for one in places for place in (one, *sorted(path for path in one.glob("*") if path.is_dir()))]
    places = [path for place in places for path in (place, place / "include", place / "include" / "eigen3")] + [
        pathlib.Path("/usr/include/eigen3")]
    found, missing = [], []
    for header, name in HEADERS.items():
        place = next((path for path in places if (path / header).is_file()), None)
        if place is not None:
            found.append(place)
        elif children.ask([compiler, "-x", "c++", "-E", "-o", os.devnull, "-"], 20, f"#include <{header}>\n")[0] != 0:
            missing.append(name)
    return list(dict.fromkeys(found)), missing


class Builder:
    """Programs for one architecture, in a folder; `until` is when compiling must have ended, by time.monotonic()."""

    def __init__(self, folder, nvcc, compiler, architecture, includes, until, chosen=False):
        self.folder, self.compiler, self.until = folder, compiler, until
        # nvcc's own choice of a compiler for the host's code is g++, unless the user has chosen.
        self.nvcc = [nvcc, *(["-ccbin", compiler] if chosen else [])]
        self.libraries = ["-lcublasLt", "-Xlinker", f"-rpath={library_folder(nvcc)}"]
        own = [f"-I{ROOT / name}" for name in ("include", "kernels")]
        self.device = [*self.nvcc, "-std=c++20", "-O2", "-DNDEBUG", "-gencode", f"arch=compute_{architecture},code=sm_{architecture}", *own,
                       *(f"-isystem={path}" for path in includes), "-x", "cu", "-c"]
        self.host = [compiler, "-std=c++20", "-O2", "-DNDEBUG", "-march=native", *own, *(f"-isystem{path}" for path in includes)]
        folder.mkdir(parents=True, exist_ok=True)

    def call(self, command, log, environment=None):
        left = self.until - time.monotonic()
        if left <= 0:
            return "cut"
        with open(log, "a") as file:
            file.write(" ".join(map(str, command)) + "\n")
            file.flush()
            status, _ = children.run(command, left, stdout=file, stderr=subprocess.STDOUT, env=environment)
        return "cut" if status is None else "built" if status == 0 else "failed"

    def probe(self, environment):
        """What is wrong with nvcc, the linker or cuBLASLt's library, in their words; nothing where nothing is."""
        source, log = self.folder / "probe.cu", self.folder / "probe.log"
        source.write_text("#include <cublasLt.h>\n#include <cstdio>\n"
                          'int main() { return std::printf("cuBLASLt %zu\\n", cublasLtGetVersion()) < 0; }\n')
        log.unlink(missing_ok=True)
        for command in [*self.calls("probe", source), [self.folder / "probe"]]:
            status = self.call(command, log, environment)
            if status != "built":
                return "\n".join(log.read_text(errors="replace").strip().splitlines()[-12:]) + (
                    "\nThe time for it was up." if status == "cut" else "")
        return ""

    def calls(self, name, source, flags=(), objects=(), more=()):
        """nvcc's calls for a program of one source and objects."""
        return [[*self.device, *flags, ROOT / source, "-o", self.folder / f"{name}.o"],
                [*self.nvcc, self.folder / f"{name}.o", *objects, *more, *self.libraries, "-o", self.folder / name]]

    def make(self, name, steps):
        """One program: {name, status, seconds, log}."""
        begin, log = time.monotonic(), self.folder / f"{name}.log"
        log.unlink(missing_ok=True)
        status = "built"
        for command in steps:
            status = self.call(command, log)
            if status != "built":
                break
        return {"name": name, "status": status, "seconds": round(time.monotonic() - begin, 1), "log": str(log)}

    def programs(self):
        """The calls that make each program, in the order of what is wanted most."""
        at = self.folder
        counted = [word for name in ("cudaMalloc", "cudaFree", "cudaGraphInstantiate", "cudaGraphExecDestroy")
                   for word in ("-Xlinker", f"--wrap={name}")]

        tiny = ["-DHEDDLE_MODEL=tiny", "-DHEDDLE_PLAN=serial"]
        support = [at / f"train-{name}.o" for name in ("options", "run_log", "text_data")]
        made = {"train-tiny": self.calls("train-tiny", "tools/train_program/device.cu", ["-DHEDDLE_ON_DEVICE", *tiny], support),
                "device-kernels": self.calls("device-kernels", "bench/run/device_kernels.cu")}
        for name, (layers, heads, width, sequences) in MODELS.items():
            sizes = {"LAYERS": layers, "HEADS": heads, "WIDTH": width, "SEQUENCES": sequences, "CONTEXT": CONTEXT,
                     "VOCABULARY": VOCABULARY}
            made[name] = self.calls(name, "bench/run/device_step.cu", [f"-DHEDDLE_{key}={value}" for key, value in sizes.items()])
        for name, source in TESTS.items():
            made[name] = self.calls(name, source, objects=[at / "test-main.o", at / "test-runtime.o"], more=counted)
        made["train-tiny-host"] = [[*self.host, *tiny, ROOT / "tools/train_program/main.cpp", ROOT / "tools/train_program/report.cpp",
                                    *support, "-pthread", "-o", at / "train-tiny-host"]]
        return made

    def shared_parts(self):
        """What several programs are linked with."""
        parts = {f"train-{name}": [[*self.host, "-c", ROOT / f"tools/train_program/{name}.cpp", "-o", self.folder / f"train-{name}.o"]]
                 for name in ("options", "run_log", "text_data")}
        parts["test-main"] = [[*self.host, "-c", ROOT / "tests/support/main.cpp", "-o", self.folder / "test-main.o"]]
        parts["test-runtime"] = [[*self.device, ROOT / "tests/device/runtime.cpp", "-o", self.folder / "test-runtime.o"]]
        return parts

    def build(self, only=None):
        made = {name: steps for name, steps in self.programs().items() if only is None or name in only}
        needed = {str(word) for steps in made.values() for command in steps for word in command}
        parts = {name: steps for name, steps in self.shared_parts().items() if str(steps[-1][-1]) in needed}
        results = []
        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            try:
                for group in (parts, made):
                    results += pool.map(lambda one: self.make(*one), group.items())
            except BaseException:
                children.end_all()  # the pool waits for its threads
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return results


def find_nvcc():
    """nvcc's path, or where it was looked for."""
    home = os.environ.get("CUDA_HOME")
    path = f"{home}/bin/nvcc" if home else shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    return path, os.access(path, os.X_OK)


def library_folder(nvcc):
    """Where the toolkit's libraries are, in which a program looks for them when it is started."""
    home = pathlib.Path(nvcc).resolve().parents[1]
    places = [home / "lib64", home / "targets" / f"{platform.machine()}-linux" / "lib", home / "lib"]
    return next((one for one in places if any(one.glob("libcublasLt.so*"))), places[0])
