#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What stands behind tools/plan: reads the question, compiles a program for its model and plan where there is none yet,
and runs it."""
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
INCLUDE = ROOT / "include"
COMPILER = os.environ.get("CXX", "g++")
BUILD = pathlib.Path(os.environ.get("HEDDLE_BUILD") or str(ROOT / "build")).absolute()
BUILD = BUILD.with_name(BUILD.name + "-plan")
KEPT_PROGRAMS = 64

# Names of heddle/layout/names.hpp, and the sizes and choices of the models' configs with their defaults.
AXES = ("dp", "dp_replicate", "pp", "tp", "ep", "cp")
DIMENSIONS = ("batch", "sequence", "layers", "embed", "mlp", "vocab", "heads", "group", "qkv", "head_dim", "gate_up")
SIZES = ("vocabulary", "context", "layers", "heads", "kv_heads", "width", "mlp")
MODELS = {
    "gpt2": {"vocabulary", "context", "layers", "heads", "width", "mlp", "biased", "tied", "dropout"},
    "llama": {"vocabulary", "context", "layers", "heads", "kv_heads", "width", "mlp", "tied", "dropout"},
}
DEFAULT_RULES = ("heads:tp", "mlp:tp", "vocab:tp", "batch:dp_replicate", "batch:dp", "layers:pp", "sequence:tp")
SCHEDULES = {"gpipe": "hd::gpipe", "1f1b": "hd::one_f_one_b"}
UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
MOST_MICRO_BATCHES = 1 << 16
MOST_SCHEDULED = 1 << 21  # stages × micro-batches: each is written out and simulated when the program runs
MOST_SIZE = 1 << 40
NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
PART = re.compile(r"[a-z][a-z0-9_]{0,31}(\.[a-z0-9_]{1,32}){0,4}")


class refused(Exception):
    pass


def shown(text):
    """What somebody wrote, fit for a message: one line, not too long, nothing that a terminal obeys."""
    clean = "".join(c if c.isprintable() else "\\x%02x" % ord(c) for c in text)
    return f"'{clean if len(clean) <= 60 else clean[:57] + '...'}'"


def number(option, text, most=MOST_SIZE, least=1):
    if not re.fullmatch(r"[0-9]{1,15}", text) or not text.isascii() or not least <= int(text) <= most:
        raise refused(f"{option}: must be a whole number from {least} to {most}, not {shown(text)}; write its digits alone")
    return int(text)


def one_of(option, text, known):
    if text not in known:
        raise refused(f"{option}: there is no {shown(text)}; choose one of {', '.join(known)}")
    return text


def size_in_bytes(option, text):
    found = re.fullmatch(r"([0-9]{1,19}) ?(|B|KiB|MiB|GiB|TiB)", text, re.ASCII)
    if not found or not 1 <= int(found[1]) * UNITS[found[2]] <= 1 << 60:
        raise refused(f"{option}: must be a number of bytes of at most 2^60, not {shown(text)}; write 25MiB, 80GiB or "
                      "the bytes themselves")
    return int(found[1]) * UNITS[found[2]]


def axis_name(option, text):
    if not NAME.fullmatch(text):
        raise refused(f"{option}: an axis must have a name of at most 32 small letters, digits and underscores, not "
                      f"{shown(text)}; the usual ones are {', '.join(AXES)}")
    return text


def read_mesh(text):
    mesh = {}
    for part in text.split(",") if text != "1" else []:
        name, equals, size = part.partition("=")
        if not equals:
            raise refused(f"--mesh: must be axes with sizes, not {shown(part)}; write --mesh dp=2,pp=4,tp=8, or --mesh 1 "
                          "for one rank")
        axis_name("--mesh", name)
        if name in mesh:
            raise refused(f"--mesh: gives the axis {shown(name)} twice; multiply the sizes or name another")
        mesh[name] = number(f"--mesh {name}", size, 1 << 32)
    if len(mesh) > 8:
        raise refused(f"--mesh: has {len(mesh)} axes and may have 8; merge some of them")
    return mesh


def read_rules(text, mesh):
    rules = []
    for part in text.split(","):
        dimension, colon, axis = part.partition(":")
        if not colon:
            raise refused(f"--rules: must be dimensions with axes, not {shown(part)}; write --rules heads:tp,mlp:tp,batch:dp")
        one_of("--rules", dimension, DIMENSIONS)
        if axis not in mesh:
            raise refused(f"--rules: {shown(axis)} is no axis of the mesh; add it to --mesh (size 1 will do), or take "
                          f"the rule for {dimension} out")
        if (dimension, axis) in rules:
            raise refused(f"--rules: has {dimension}:{axis} twice; take one of the two out")
        rules.append((dimension, axis))
    if len(rules) > 24:
        raise refused(f"--rules: has {len(rules)} rules and may have 24; merge some of them")
    return rules


def read_zero(text, mesh):
    stage, colon, axes = text.partition(":")
    one_of("--zero", stage, ("0", "1", "2", "3"))
    names = axes.split(",") if colon else []
    for name in names:
        if name not in mesh:
            raise refused(f"--zero: {shown(name)} is no axis of the mesh; name data axes of --mesh, or none for all")
        if names.count(name) > 1:
            raise refused(f"--zero: has {shown(name)} twice; take one of the two out")
    return [int(stage), names]


def read_padding(text):
    pads = []
    for part in text.split(",") if text != "none" else []:
        dimension, colon, multiple = part.partition(":")
        one_of("--padding", dimension, DIMENSIONS)
        pads.append([dimension, number(f"--padding {dimension}", multiple, 1 << 20) if colon else 1])
    return pads


def read_frozen(text):
    parts = text.split(",")
    for part in parts:
        if not PART.fullmatch(part):
            raise refused(f"--frozen: must be names of modules, as parameters' names begin, not {shown(part)}; write "
                          "--frozen wte,h.mlp")
        if parts.count(part) > 1:
            raise refused(f"--frozen: has {shown(part)} twice; take one of the two out")
    return parts


def read(arguments):
    """The question: {option: value}, each checked alone."""
    asked = {"parameter": [], "activation": []}
    rest = list(arguments)
    values = {"model", "mesh", "rules", "sequence-parallel", "micro-batch", "global-batch", "accumulate", "schedule",
              "zero", "bucket", "reduce", "logit-chunk", "precision", "padding", "fits", "parameter", "activation", "json", "tied",
              "biased", "dropout", "frozen"} | {size.replace("_", "-") for size in SIZES}
    while rest:
        option = rest.pop(0)
        if option == "--why":
            asked["why"] = True
            continue
        name, equals, value = option.partition("=")
        if not name.startswith("--") or name[2:] not in values:
            raise refused(f"there is no option {shown(option)}; see tools/plan --help")
        if not equals:
            if not rest:
                raise refused(f"{name}: needs a value; see tools/plan --help")
            value = rest.pop(0)
        key = name[2:].replace("-", "_")
        if key in ("parameter", "activation"):
            asked[key].append(value)
        elif key in asked:
            raise refused(f"{name}: is given twice; give it once")
        else:
            asked[key] = value
    return asked


def checked(asked):
    """The question with every value read, and what follows from several of them."""
    q = {key: asked.get(key) for key in ("why", "parameter", "activation", "json")}
    if q["json"] == "":
        raise refused("--json: must name a file, or be - for standard output; leave it out for none")
    if "" in (q["activation"] or []):
        raise refused("--activation: must not be empty; name one, or leave the option out")
    for option in ("model", "mesh"):
        if option not in asked:
            raise refused(f"--{option}: must be given; see tools/plan --help")
    q["model"] = one_of("--model", asked["model"], tuple(MODELS))
    for key in SIZES + ("tied", "biased", "dropout"):
        if key not in asked:
            continue
        option = "--" + key.replace("_", "-")
        if key not in MODELS[q["model"]]:
            raise refused(f"{option}: {q['model']} has no such choice; leave it out, or choose another --model")
        if key in SIZES:
            q[key] = number(option, asked[key], 1 << 32)
        elif key == "dropout":
            # As many digits as a double tells apart from 1.
            if not re.fullmatch(r"0(\.[0-9]{1,15})?", asked[key], re.ASCII):
                raise refused(f"--dropout: must be a probability below 1 of at most 15 decimals, not {shown(asked[key])}; "
                              "write 0.1")
            q[key] = asked[key]
        else:
            q[key] = one_of(option, asked[key], ("on", "off")) == "on"
    q["mesh"] = read_mesh(asked["mesh"])
    q["rules"] = read_rules(asked["rules"], q["mesh"]) if "rules" in asked else None
    if "sequence_parallel" in asked:
        if q["rules"] is not None:
            raise refused("--sequence-parallel: contradicts --rules; say it there, by sequence:tp or by leaving that out")
        q["sequence_parallel"] = one_of("--sequence-parallel", asked["sequence_parallel"], ("on", "off")) == "on"
    if "schedule" in asked:
        q["schedule"] = one_of("--schedule", asked["schedule"], tuple(SCHEDULES))
    q["precision"] = one_of("--precision", asked.get("precision", "fp32"), ("fp32", "fp64", "tf32", "bf16_mixed", "fp16_mixed"))
    if "zero" in asked:
        q["zero"] = read_zero(asked["zero"], q["mesh"])
    if "padding" in asked:
        q["padding"] = read_padding(asked["padding"])
    if "frozen" in asked:
        q["frozen"] = read_frozen(asked["frozen"])
    for key in ("bucket", "logit_chunk", "fits"):
        if key in asked:
            q[key] = size_in_bytes("--" + key.replace("_", "-"), asked[key])
    if "reduce" in asked:
        q["reduce"] = one_of("--reduce", asked["reduce"], ("per-step", "per-micro-batch"))
    axes(q)
    batch(asked, q)
    countable(q)
    return q


def rules_of(q):
    """The rules, given or by default, as pairs."""
    rules = q["rules"] if q["rules"] is not None else [tuple(rule.split(":")) for rule in DEFAULT_RULES]
    return [rule for rule in rules if rule[0] != "sequence" or q["rules"] is not None or q.get("sequence_parallel", True)]


def axes(q):
    """What the library would say of axes without saying which."""
    for axis, size in q["mesh"].items():
        if size > 1 and axis not in {rule[1] for rule in rules_of(q)}:
            raise refused(f"--mesh: no rule uses the axis '{axis}' of {size} ranks, which would only repeat the same work; "
                          f"give a rule for it with --rules, or take it out")
    data = [axis for dimension, axis in rules_of(q) if dimension == "batch" and axis in q["mesh"]]
    stage, named = q.get("zero", (0, []))
    if stage and not data:
        raise refused(f"--zero: {stage} splits state over the data axes, and the mesh has none; add dp=N to --mesh, or leave "
                      "--zero out")
    for axis in named:
        if axis not in data:
            raise refused(f"--zero: '{axis}' is no data axis; name one that a rule binds to batch: {', '.join(data) or 'none'}")


def batch(asked, q):
    """Micro-batch and micro-batches from those that are given of three numbers of which one follows."""
    given = {key: number("--" + key.replace("_", "-"), asked[key], 1 << 32)
             for key in ("micro_batch", "accumulate", "global_batch") if key in asked}
    ways = stages = 1
    for dimension, axis in rules_of(q):
        ways *= q["mesh"].get(axis, 1) if dimension == "batch" else 1
        stages *= q["mesh"].get(axis, 1) if dimension == "layers" else 1
    micro, steps, whole = (given.get(key) for key in ("micro_batch", "accumulate", "global_batch"))
    if whole:
        if micro and not steps:
            steps = whole // (ways * micro) or 1
        steps = steps or 1
        micro = micro or whole // (ways * steps) or 1
        if ways * micro * steps != whole:
            unit = ways * (given.get("micro_batch") or 1) * (given.get("accumulate") or 1)
            near = [n for n in (whole // unit * unit, (whole // unit + 1) * unit) if n]
            remedy = f"--global-batch {ways * micro * steps}" if len(given) == 3 else " or ".join(map(str, near))
            others = ", ".join(f"--{key.replace('_', '-')} {n}" for key, n in given.items() if key != "global_batch")
            raise refused(f"--global-batch: {whole} is not {ways} data ranks × micro-batches × micro-batch"
                          + (f" with {others}" if others else "") + f", in whole numbers; take {remedy}")
    q["micro_batch"], q["accumulate"] = micro or 1, steps or 1
    if q["accumulate"] > MOST_MICRO_BATCHES:
        raise refused(f"--accumulate: {q['accumulate']} micro-batches are more than {MOST_MICRO_BATCHES}; make "
                      "--micro-batch larger")
    if stages * q["accumulate"] > MOST_SCHEDULED:
        raise refused(f"--accumulate: {stages} stages × {q['accumulate']} micro-batches are more than {MOST_SCHEDULED} to "
                      "simulate; make --micro-batch larger or the pipeline shorter")


def countable(q):
    """What the library sums up in 64 bits would wrap around silently: bounds for a value over all data ranks, and for
    what one rank keeps and sends in a step."""
    size = lambda key, default: q.get(key, default)  # the larger of the models' defaults
    width, vocabulary, context = size("width", 4096), size("vocabulary", 50257), size("context", 4096)
    widest = max(vocabulary, 8 * width, 2 * size("mlp", 11008))
    weights = 16 * size("layers", 32) * width * max(width, size("mlp", 4 * width)) + (vocabulary + context) * width
    ways = 1
    for dimension, axis in rules_of(q):
        ways *= q["mesh"].get(axis, 1) if dimension == "batch" else 1
    value = q["micro_batch"] * context * widest
    in_a_step = 8 * 4 * q["accumulate"] * (16 * size("layers", 32) * value + 4 * weights)
    if max(8 * ways * value, in_a_step) >= 1 << 63:
        raise refused("--micro-batch: with these sizes there may be more than 2^63 bytes to count; make --micro-batch, "
                      "--context, --width, --vocabulary, --layers, --accumulate or the mesh smaller")


def program_text(q):
    """The C++ program of a checked question: of what the question gives, only names from the tables above and numbers
    enter it."""
    own = [name for name in q["mesh"] if name not in AXES]
    axis = lambda name: f"axis_{name}" if name in own else f"hd::{name}"
    config = [f".{key} = {'true' if q[key] is True else 'false' if q[key] is False else q[key]}"
              for key in ("vocabulary", "context", "layers", "heads", "kv_heads", "width", "mlp", "biased", "tied",
                          "dropout") if key in q]
    policies = ["hd::mesh<" + ", ".join(f"hd::axis<{axis(name)}, {size}>" for name, size in q["mesh"].items()) + ">"]
    if q["rules"] is not None:
        policies.append("hd::rules<" + ", ".join(f"hd::shard<hd::{d}, {axis(a)}>" for d, a in q["rules"]) + ">")
    if "sequence_parallel" in q:
        policies.append(f"hd::sequence_parallel<{'true' if q['sequence_parallel'] else 'false'}>")
    policies += [f"hd::micro_batch<{q['micro_batch']}>", f"hd::accumulate<{q['accumulate']}>",
                 f"hd::precision<hd::{q['precision']}>"]
    if "schedule" in q:
        policies.append(f"hd::pipeline<{SCHEDULES[q['schedule']]}>")
    if "zero" in q:
        policies.append(f"hd::zero<{', '.join([str(q['zero'][0])] + [axis(name) for name in q['zero'][1]])}>")
    if "padding" in q:
        policies.append("hd::padding<" + ", ".join(f"hd::pad<hd::{d}, {n}>" for d, n in q["padding"]) + ">")
    if "bucket" in q:
        policies.append(f"hd::bucket<{q['bucket']}>")
    if "reduce" in q:
        policies.append(f"hd::reduce_gradients<hd::{q['reduce'].replace('-', '_')}>")
    if "logit_chunk" in q:
        policies.append(f"hd::logit_chunk<{q['logit_chunk']}>")
    request = {key: value for key, value in q.items()
               if value is not None and key not in ("why", "parameter", "activation", "json", "fits")}
    lines = ["// SPDX-License-Identifier: Apache-2.0", '#include "plan_program.hpp"',
             f"#include <heddle/models/{q['model']}.hpp>", "#include <heddle/models/with_frozen.hpp>",
             "#include <heddle/pipeline/gpipe.hpp>", "#include <heddle/plan/plan.hpp>", "namespace hd = heddle;"]
    lines += [f'struct axis_{name} : hd::axis_name<"{name}"> {{}};' for name in own]
    model = f"hd::{q['model']}<hd::{q['model']}_config{{{', '.join(config)}}}>"
    if "frozen" in q:
        model = f"hd::with_frozen<{', '.join([model] + [json.dumps(part) for part in q['frozen']])}>"
    lines += [f"using model = {model};",
              f"struct plan : hd::plan<{', '.join(policies)}> {{}};",
              "using resolved = hd::resolved<model, plan, host_sizes>;",
              "static_assert(sizeof(hd::legal<resolved>) > 0);",
              f"char const request[] = {json.dumps(json.dumps(request))};",
              "int main(int argc, char** argv) { return show_plan(argc, argv, hd::facts_of_plan<resolved>(), request); }"]
    return "\n".join(lines) + "\n"


@functools.lru_cache(None)
def version():
    return subprocess.run([COMPILER, "--version"], capture_output=True).stdout if shutil.which(COMPILER) else b""


@functools.lru_cache(None)
def flags():
    # Compiled far longer than it runs: not optimized, no debug information. The first error says all.
    common = ["-std=c++20", "-O0", "-g0", "-Wfatal-errors", "-I", str(INCLUDE), "-I", str(HERE)]
    # Where many axes change at once the search for paths is longer than a compiler allows by default.
    common += ["-fconstexpr-steps=2000000000" if b"clang" in version() else "-fconstexpr-ops-limit=2000000000"]
    found = subprocess.run(["pkg-config", "--cflags", "nlohmann_json"], capture_output=True, text=True)
    return common + (found.stdout.split() if found.returncode == 0 else [])


def identity():
    """Of everything that the programs are made from, but for the question."""
    digest = hashlib.sha256()
    for part in (COMPILER.encode(), version(), *(flag.encode() for flag in flags())):
        digest.update(part + b"\0")
    for path in [*sorted(INCLUDE.rglob("*.hpp")), *sorted(HERE.glob("*.[ch]pp"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def reason_of(log):
    """The library's sentence in a compiler's output, or nothing."""
    found = re.search(r"(?:plan|model)_error<.*>", log)
    if found:
        text = found[0]
        depth = 0
        for at, c in enumerate(text):
            depth += (c == "<") - (c == ">")
            if depth == 0 and c == ">":
                text = text[: at + 1]
                break
        return re.sub(r"\s+>", ">", re.sub(r"(?<=\d)(?:ul|UL)\b", "", text.replace("heddle::", "")))
    found = re.search(r"static[ _]assert(?:ion)?(?: failed)?(?: due to requirement '.*?')?:? \"?(.*?)\"?$", log, re.MULTILINE)
    if not found:
        return None
    place = re.search(r"(?:In instantiation of|in instantiation of template class) ['‘](.*?)['’]", log)
    where = f" [{place[1].replace('heddle::', '')}]" if place and "here" in found[1] else ""
    return found[1] + where


def compile_one(source, output, link=()):
    arguments = ["-o", str(output), *map(str, link)] if link else ["-c", "-o", str(output)]
    return subprocess.run([COMPILER, *flags(), str(source), *arguments], capture_output=True, text=True, errors="replace",
                          stdin=subprocess.DEVNULL)


def failed(what, log):
    place = BUILD / "compile.log"
    place.write_text(log)
    sys.stderr.write("\n".join(log.splitlines()[-20:]) + "\n")
    print(f"tools/plan: {what} failed; all of it: {place}", file=sys.stderr)
    sys.exit(1)


def support_objects(identity_text):
    """What is the same for all questions: compiled once. Returns the objects and those that are missing."""
    folder = BUILD / ("support-" + identity_text[:16])
    pairs = [(source, folder / (source.stem + ".o")) for source in sorted(HERE.glob("*.cpp"))]
    return [o for _, o in pairs], [(s, o) for s, o in pairs if not o.exists()]


def places(base, text):
    """Of a program, and of the sentence with which the library refuses it."""
    key = hashlib.sha256((base + text).encode()).hexdigest()[:32]
    return BUILD / "programs" / key, BUILD / "programs" / (key + ".refused")


def program_of(q):
    """The path of the question's program, compiled where there is none; or a refusal."""
    text, base = program_text(q), identity()
    program, refusal = places(base, text)
    if refusal.exists():
        raise SystemExit(cannot_work(refusal.read_text()))
    if program.exists():
        os.utime(program)
        return program
    if support_objects(base)[1]:  # else all that is needed was there before
        if subprocess.run([ROOT / "tools" / "setup", "plan"], stdout=sys.stderr).returncode != 0:
            sys.exit(1)
        version.cache_clear()  # the compiler may be new
        flags.cache_clear()
        base = identity()
        program, refusal = places(base, text)
    if not shutil.which(COMPILER):
        print(f"tools/plan: CXX: there is no compiler {shown(COMPILER)}; name one, or leave CXX out for g++", file=sys.stderr)
        sys.exit(2)
    program.parent.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    objects, missing = support_objects(base)
    if sys.stderr.isatty():
        print("compiling the plan" + (" and, once, what shows plans" if missing else "") + " …", end="", file=sys.stderr,
              flush=True)
    # Made beside their places and moved there whole: another tools/plan may want the same at the same time.
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="compiling-") as folder:
        folder = pathlib.Path(folder)
        source = folder / "plan.cpp"
        source.write_text(text)
        todo = [(source, folder / "plan.o")] + [(s, folder / o.name) for s, o in missing]
        with ThreadPoolExecutor(max_workers=max(1, len(os.sched_getaffinity(0)))) as pool:
            done = list(pool.map(lambda pair: compile_one(*pair), todo))
        if done[0].returncode != 0:
            reason = reason_of(done[0].stderr)
            if reason is None:
                failed("compiling the plan", done[0].stderr)
            (folder / "refused").write_text(reason)
            os.replace(folder / "refused", refusal)
        for one, (_, made), (_, place) in zip(done[1:], todo[1:], missing):
            if one.returncode != 0:
                failed("compiling what shows plans", one.stderr)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(made, place)
        if refusal.exists():
            if sys.stderr.isatty():
                print(file=sys.stderr)
            raise SystemExit(cannot_work(refusal.read_text()))
        linked = compile_one(folder / "plan.o", folder / "plan", link=objects)
        if linked.returncode != 0:
            failed("linking the plan", linked.stderr)
        os.replace(folder / "plan", program)
    seconds = f"compiling the plan: {time.monotonic() - begin:.0f} s"
    print(f"\r{seconds:<60}" if sys.stderr.isatty() else seconds, file=sys.stderr)
    forget(base)
    return program


def last_used(path):
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another tools/plan forgot it
        return 0


def forget(base):
    """Keeps the programs used last, and of the support the present one."""
    programs = sorted((BUILD / "programs").iterdir(), key=last_used, reverse=True)
    for old in programs[KEPT_PROGRAMS:]:
        old.unlink(missing_ok=True)
    for old in BUILD.glob("support-*"):
        if old.name != "support-" + base[:16] and time.time() - last_used(old) > 3600:
            shutil.rmtree(old, ignore_errors=True)


def cannot_work(reason):
    print(f"tools/plan: the plan cannot work: {reason}", file=sys.stderr)
    return 1


def main():
    try:
        q = checked(read(sys.argv[1:]))
    except refused as why:
        print(f"tools/plan: {why}", file=sys.stderr)
        sys.exit(2)
    try:
        program = program_of(q)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as why:
        print(f"tools/plan: {why.filename or BUILD}: {why.strerror}; name another folder with HEDDLE_BUILD", file=sys.stderr)
        sys.exit(1)
    options = ["--why"] if q["why"] else []
    for key in ("parameter", "activation"):
        for name in q[key]:
            options += [f"--{key}", name]
    for key in ("json", "fits"):
        if q.get(key) is not None:
            options += [f"--{key}", str(q[key])]
    os.execv(program, ["tools/plan", *options])


if __name__ == "__main__":
    main()
