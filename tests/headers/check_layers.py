#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks which header may include which, and that modules and models know no mesh axis and no collective.

check_layers.py INCLUDE
"""
import pathlib
import re
import sys

# A layer, and those it may include beside itself. docs/layout.md says what each is for. `nn` and `models` reach neither
# `comm` (they call no collective) nor a backend (it is a template argument).
BOTTOM = {"error", "bytes", "ratio", "detail"}
LAYERS = {
    "error": set(),
    "bytes": set(),
    "ratio": {"error"},
    "detail": {"error", "ratio"},
    "layout": BOTTOM,
    "comm": BOTTOM,
    "tensor": BOTTOM | {"layout", "comm"},
    "backend/host": BOTTOM | {"layout", "comm", "tensor", "precision"},
    "backend/cuda": BOTTOM | {"layout", "comm", "tensor", "precision"},
    "backend/mpi": BOTTOM | {"comm"},
    "precision": BOTTOM | {"layout", "tensor"},
    "optim": BOTTOM | {"layout", "comm", "tensor", "precision"},
    "pipeline": BOTTOM | {"layout", "comm", "tensor"},
    "nn": BOTTOM | {"layout", "tensor", "precision"},
    "models": BOTTOM | {"layout", "tensor", "precision", "nn"},
}
LAYERS["plan"] = set(LAYERS) - {"backend/host", "backend/cuda", "backend/mpi"}
# The device backend is a template argument here, too: no program needs the CUDA Toolkit that does not ask for it.
LAYERS["train"] = set(LAYERS) - {"backend/cuda", "backend/mpi"}
LAYERS["heddle"] = set(LAYERS) - {"backend/cuda", "backend/mpi"}  # the umbrella heddle.hpp
LAYERS["cuda"] = set(LAYERS)  # plans on devices: where both meet

# What every .cu file parses; in `plan`, sets of plans are collections for users.
NVCC_PARSES = ("layout", "comm", "tensor", "nn", "pipeline", "optim", "precision", "models")
# (layers, what their headers must not include, why)
BANNED = [
    (set(LAYERS) - {"backend/host"}, re.compile(r"^(Eigen/|unsupported/Eigen/)"), "Eigen belongs to backend/host"),
    (set(LAYERS) - {"backend/cuda"}, re.compile(r"^(cuda|nvtx3/|cublas)"), "device headers belong to their own backend"),
    (set(LAYERS) - {"backend/cuda"}, re.compile(r"\.cuh$"), "kernels belong to the device backend"),
    (set(LAYERS) - {"backend/cuda"}, re.compile(r"^nccl"), "NCCL's header belongs to its own backend"),
    (set(LAYERS) - {"backend/mpi"}, re.compile(r"^mpi\.h"), "MPI's header belongs to its own backend"),
    (set(LAYERS), re.compile(r"^(iostream|ranges|regex)$"), "costs every user compile time"),
    (set(NVCC_PARSES), re.compile(r"^boost/hana"), "costs seconds under nvcc; use packs and constexpr arrays"),
    (set(LAYERS), re.compile(r"^(nlohmann/|CLI/|doctest/)"), "is for examples, tools and tests"),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
COMMENT_OR_TEXT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<end>\w*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])+'""", re.DOTALL)
AXIS = re.compile(r"\b(dp|tp|pp|ep|cp)\b")
COLLECTIVE = re.compile(r"\b(all_reduce|all_gather|reduce_scatter|all_to_all|broadcast|barrier|send|receive)\s*[(<]")


def layer_of(name):
    """The layer of heddle/NAME, or None."""
    parts = pathlib.PurePosixPath(name).with_suffix("").parts
    for length in (2, 1):
        if "/".join(parts[:length]) in LAYERS:
            return "/".join(parts[:length])
    return None


def check(include):
    red = []
    paths = sorted((include / "heddle").rglob("*.hpp"))
    if not paths:
        red.append(f"{include}: holds no heddle header; name the folder that users put on their include path")
    for path in paths:
        name = path.relative_to(include / "heddle").as_posix()
        layer = layer_of(name)
        if layer is None:
            red.append(f"{name}: its folder is in no layer; give it a line in LAYERS of this script")
            continue
        text = path.read_text()
        for quote, target in INCLUDE.findall(text):
            if quote == '"' and not target.startswith("heddle/"):
                red.append(f'{name}: includes "{target}"; write its path from heddle/ on')
            if target.startswith("heddle/"):
                other = layer_of(target[len("heddle/"):])
                if other != layer and other not in LAYERS[layer]:
                    red.append(f"{name}: '{layer}' must not include <{target}>; move what they share to a lower layer")
            for layers, banned, why in BANNED:
                if layer in layers and banned.search(target):
                    red.append(f"{name}: must not include <{target}>: {why}")
        if layer in ("nn", "models"):
            for number, line in enumerate(blank(text).splitlines(), 1):
                for found in AXIS.findall(line):
                    red.append(f"{name}:{number}: names the mesh axis '{found}'; state dimensions, rules place them")
                for found in COLLECTIVE.findall(line):
                    red.append(f"{name}:{number}: calls '{found}'; ask for the reduction by dimension")
    return red


def blank(text):
    """The text without comments and literals, line for line."""
    return COMMENT_OR_TEXT.sub(lambda found: "\n" * found.group().count("\n"), text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    faults = check(pathlib.Path(sys.argv[1]))
    if faults:
        sys.exit("\n".join(faults))
