#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants one fault at a time in a small tree of headers: each gate of this folder must go red, with its reason.

test_gates.py check_headers.py check_layers.py [NVCC] -- COMPILER ARGUMENTS...
"""
import pathlib
import subprocess
import sys
import tempfile

SOUND = "#pragma once\n#include <cstddef>\nnamespace heddle {\ninline std::size_t twice(std::size_t n) { return 2 * n; }\n}\n"
PART = "#include <heddle/layout/a.hpp>\ndouble HEDDLE_PART() { return static_cast<double>(heddle::twice(2)); }\n"
# what is planted, the gate, header, its text, a word of the gate's message (None: it must pass)
TRIALS = [
    ("nothing", "alone", "layout/a.hpp", SOUND, None),
    ("nothing", "names", "layout/a.hpp", SOUND, None),
    ("nothing", "link", "layout/a.hpp", SOUND, None),
    ("nothing", "layers", "layout/a.hpp", SOUND, None),
    ("a missing include", "alone", "layout/a.hpp", SOUND.replace("#include <cstddef>\n", ""), "does not compile alone"),
    ("a missing guard", "alone", "layout/a.hpp", SOUND.replace("#pragma once\n", ""), "does not compile alone"),
    ("a warning", "alone", "layout/a.hpp", SOUND.replace("return 2 * n", "int m = 0; return 2 * n"), "does not compile alone"),
    ("a macro's name", "names", "layout/a.hpp", SOUND.replace("twice", "major"), "is a macro elsewhere"),
    ("a macro's name in a comment", "names", "layout/a.hpp", SOUND + "// the major part\n", None),
    ("a missing inline", "link", "layout/a.hpp", SOUND.replace("inline ", ""), "make it inline"),
    ("nothing", "link with nvcc", "layout/a.hpp", SOUND, None),
    ("what only g++ takes", "link with nvcc", "layout/a.hpp", SOUND + "#ifdef __CUDACC__\n#error no\n#endif\n",
     "cuda_forward does not compile"),
    ("a warning of nvcc", "link with nvcc", "layout/a.hpp",
     SOUND + "#ifdef __CUDACC__\ninline void unused() { int m; }\n#endif\n", "cuda_forward does not compile"),
    ("nothing", "uses", "layout/a.hpp", SOUND, None),
    ("a missing inline", "uses", "layout/a.hpp", SOUND.replace("inline ", ""), "make it inline"),
    ("a copy for each file", "uses", "layout/a.hpp", SOUND.replace("inline std::size_t twice", "inline std::size_t last = 0;\n"
     "static std::size_t twice").replace("2 * n", "last += n"), "different results"),
    ("what is not there", "alone", "backend/cuda/a.hpp", SOUND + "#include <cuda_of_nobody.h>\n", "does not compile alone"),
    ("the same, and there is no CUDA Toolkit", "alone without cuda", "backend/cuda/a.hpp",
     SOUND + "#include <cuda_of_nobody.h>\n", None),
    ("an upward include", "layers", "layout/a.hpp", SOUND + "#include <heddle/comm/b.hpp>\n", "must not include"),
    ("a backend in nn", "layers", "nn/a.hpp", SOUND + "#include <heddle/backend/host/b.hpp>\n", "must not include"),
    ("Eigen in a core header", "layers", "tensor/a.hpp", SOUND + "#include <Eigen/Core>\n", "backend/host"),
    ("CUDA in a core header", "layers", "tensor/a.hpp", SOUND + "#include <cuda_runtime.h>\n", "their own backend"),
    ("CUDA in its backend", "layers", "backend/cuda/a.hpp", SOUND + "#include <cuda_runtime.h>\n", None),
    ("NCCL in its backend", "layers", "backend/cuda/a.hpp", SOUND + "#include <nccl.h>\n", None),
    ("NCCL beside it", "layers", "comm/a.hpp", SOUND + "#include <nccl.h>\n", "its own backend"),
    ("MPI in its backend", "layers", "backend/mpi/a.hpp", SOUND + "#include <mpi.h>\n", None),
    ("MPI in the device's", "layers", "backend/cuda/a.hpp", SOUND + "#include <mpi.h>\n", "its own backend"),
    ("NVTX elsewhere", "layers", "train/a.hpp", SOUND + "#include <nvtx3/nvToolsExt.h>\n", "their own backend"),
    ("the device backend in train", "layers", "train/a.hpp", SOUND + "#include <heddle/backend/cuda/b.hpp>\n", "must not include"),
    ("a kernel in train", "layers", "train/a.hpp", SOUND + "#include <rotary/rotary.cuh>\n", "kernels belong to"),
    ("a kernel in the device backend", "layers", "backend/cuda/a.hpp", SOUND + "#include <rotary/rotary.cuh>\n", None),
    ("iostream", "layers", "plan/a.hpp", SOUND + "#include <iostream>\n", "compile time"),
    ("Hana before nvcc", "layers", "nn/a.hpp", SOUND + "#include <boost/hana.hpp>\n", "nvcc"),
    ("a relative include", "layers", "nn/a.hpp", SOUND + '#include "b.hpp"\n', "path from heddle/"),
    ("a quoted upward include", "layers", "nn/a.hpp", SOUND + '#include "heddle/train/b.hpp"\n', "must not include"),
    ("a folder of no layer", "layers", "misc/a.hpp", SOUND, "in no layer"),
    ("an axis in nn", "layers", "nn/a.hpp", SOUND + "struct tp;\n", "mesh axis 'tp'"),
    ("an axis in a comment", "layers", "nn/a.hpp", SOUND + "// split over tp\n", None),
    ("a collective in models", "layers", "models/a.hpp", SOUND + "void f() { all_reduce(1); }\n", "calls 'all_reduce'"),
    ("an empty tree", "layers", "../elsewhere/a.hpp", SOUND, "holds no heddle header"),
    ("an empty tree", "alone", "../elsewhere/a.hpp", SOUND, "holds no heddle header"),
]


def main(check_headers, check_layers, nvcc, command):
    red, done = [], 0
    for planted, gate, name, text, reason in TRIALS:
        with_nvcc = gate.endswith(" with nvcc")
        if with_nvcc and not nvcc:
            continue
        without_cuda = gate.endswith(" without cuda")
        gate = gate.removesuffix(" with nvcc").removesuffix(" without cuda")
        done += 1
        with tempfile.TemporaryDirectory() as include:
            header = pathlib.Path(include) / "heddle" / name
            header.parent.mkdir(parents=True)
            header.write_text(text)
            call = [check_layers, include] if gate == "layers" else [check_headers, gate, include]
            if gate == "uses":
                (pathlib.Path(include) / "part.cpp").write_text(PART)
                call.insert(2, include)
            call += ["--no-cuda"] if without_cuda else []
            call += ([nvcc] if with_nvcc else []) + ["--", *command] if gate in ("alone", "link", "uses") else []
            run = subprocess.run([sys.executable, *call], capture_output=True, text=True)
        if not (run.returncode == 0 if reason is None else run.returncode == 1 and reason in run.stderr):
            red.append(f"{gate}: planted {planted}; expected: {reason or 'pass'}; got {run.returncode}:\n{run.stderr}")
    if red:
        sys.exit("\n".join(red))
    print(f"{done} trials")


if __name__ == "__main__":
    if "--" not in sys.argv[3:5]:
        sys.exit(__doc__)
    at = sys.argv.index("--")
    main(sys.argv[1], sys.argv[2], sys.argv[3] if at == 4 else None, sys.argv[at + 1:])
