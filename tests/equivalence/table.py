#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The equivalence table: which plans are compared with the one-rank plan of the same model.

  table.py programs {covering|full}                 names of the test programs, one line each
  table.py source {covering|full|small} NAME FILE   writes the source of one program
  table.py models                                   names of the models, one line each
  table.py serial MODEL FILE                        writes the source of a model's serial runs, which the programs share
  table.py list {covering|full|small}               the rows

Choices: mesh x sequence rule x schedule x micro-batches x model x ZeRO stage x when gradients are reduced x bucket. The
mesh `hybrid` has two data axes, of which ZeRO splits states over one. `full` is their whole product: no rule makes any of
them illegal (the sequence rule has nothing to do without a tp axis, a schedule without a pp axis, ZeRO without a second
data rank; such rows are still run). `covering` takes a selection in which every pair of choices occurs in a plan where both
change what is done, and so does every triple of hybrid or not, ZeRO stage and when gradients are reduced, since all three
decide what rests and moves; `check` asserts it. Rows of one mesh, rule and model share the code of their modules, so the
selection is made of few such groups. `small` is what runs under sanitizers, with the logits in chunks.
"""
import itertools
import random
import sys

AXES = ("dp_replicate", "dp", "pp", "tp")
MESHES = {
    "dp2": (1, 2, 1, 1), "dp4": (1, 4, 1, 1), "tp2": (1, 1, 1, 2), "tp4": (1, 1, 1, 4), "pp2": (1, 1, 2, 1),
    "pp4": (1, 1, 4, 1), "dp2-tp2": (1, 2, 1, 2), "dp2-pp2": (1, 2, 2, 1), "pp2-tp2": (1, 1, 2, 2),
    "dp2-pp2-tp2": (1, 2, 2, 2), "hybrid": (2, 2, 1, 1),
}
# Of the covering table: the meshes of one program share what does not depend on a mesh, half of the compiler's work. Of the
# full table a program has the rows of one mesh, model and rule, which share their modules.
PROGRAMS = {"data": ["dp2", "dp4", "hybrid"], "tensor": ["tp2", "tp4", "dp2-tp2"], "pipeline": ["pp2", "pp4", "dp2-pp2"],
            "three": ["pp2-tp2", "dp2-pp2-tp2"]}
SEQUENCE = ["sequence", "plain"]
SCHEDULES = ["gpipe", "one_f_one_b"]
MICRO_BATCHES = [1, 2, 4, 5]
MODELS = ["gpt2_tied", "gpt2_untied", "llama_grouped"]
ZERO = [0, 1, 2, 3]
REDUCTIONS = ["per_step", "per_micro_batch"]
# One that holds everything, and one that cuts parameters into parts.
BUCKETS = ["25 * heddle::MiB", "1000"]
CHOICES = [list(MESHES), SEQUENCE, SCHEDULES, MICRO_BATCHES, MODELS, ZERO, REDUCTIONS, BUCKETS]


def full():
    return list(itertools.product(*CHOICES))


def acts(row):
    """The positions of the choices that change what this plan does: the sequence rule only with tensor ranks, the schedule only with
    stages, ZeRO, when gradients are reduced and buckets only with data
    ranks; when they are reduced only with several micro-batches."""
    replicas, data, pipeline, tensor = MESHES[row[0]]
    several = replicas * data > 1
    return ({0, 3, 4} | ({1} if tensor > 1 else set()) | ({2} if pipeline > 1 else set()) | ({5, 7} if several else set())
            | ({6} if several and row[3] > 1 else set()))


def pairs(row):
    return {(i, row[i], j, row[j]) for i, j in itertools.combinations(sorted(acts(row)), 2)}


def triple(row):
    """Whether only some data axes share the state, what of it they share and when gradients are reduced, where all three change
    what is done."""
    return {(row[0] == "hybrid", row[5], row[6])} if {5, 6} <= acts(row) else set()


def uncovered(rows):
    """The pairs and triples that some plan of the full table does and none of these."""
    return EVERY_ONE - set().union(*map(pairs, rows), *map(triple, rows))


EVERY_ONE = set().union(*map(pairs, full()), *map(triple, full()))
# The row that no other system takes whole, without when gradients are reduced and in which buckets.
ALL_AT_ONCE = ("dp2-pp2-tp2", "sequence", "one_f_one_b", 4, "gpt2_tied", 3)


def check(rows):
    """Every pair and triple of choices occurs, and so does the row that no other system takes whole; each mesh is in one
    program."""
    assert sorted(itertools.chain(*PROGRAMS.values())) == sorted(MESHES)
    assert any(row[:6] == ALL_AT_ONCE for row in rows), f"no row is {ALL_AT_ONCE}"
    assert not uncovered(rows), f"pairs and triples that no row covers: {sorted(uncovered(rows), key=str)}"


def covering():
    placed = []
    for i, mesh in enumerate(MESHES):
        for j, model in enumerate(MODELS):
            # Hybrid has all of what rests where; without data ranks there is nothing to choose of it.
            for k in range(3 if mesh == "hybrid" else 1 if mesh in ("tp2", "pp2", "pp4") and model == MODELS[2] else 2):
                micro_batches = MICRO_BATCHES[(2 * j + k + k // 2 + i) % 4]
                schedule = SCHEDULES[(i + j // 2 + k + i // 4 + 1) % 2]
                placed.append((mesh, SEQUENCE[(i + j + 1) % 2], schedule, micro_batches, model))
    # What rests where: each row takes the choice that covers a triple that no row before has covered, and most such pairs; of
    # equal ones any, until all occur.
    for seed in range(1000):
        order, rows, seen = list(itertools.product(ZERO, REDUCTIONS, BUCKETS)), [], set()
        for row in placed:
            random.Random(f"{seed} {row}").shuffle(order)
            choices = [row + rest for rest in order if row != ALL_AT_ONCE[:5] or rest[0] == ALL_AT_ONCE[5]]
            rows.append(max(choices, key=lambda one: (len(triple(one) - seen), len(pairs(one) - seen))))
            seen |= pairs(rows[-1]) | triple(rows[-1])
        if not uncovered(rows):
            break
    check(rows)
    return rows


def small():
    return [("dp2-pp2-tp2", "sequence", "one_f_one_b", 4, "gpt2_tied", 3, "per_micro_batch", "1000"),
            ("dp4", "plain", "one_f_one_b", 2, "gpt2_untied", 3, "per_step", "1000"),
            ("dp2-pp2", "plain", "gpipe", 5, "llama_grouped", 1, "per_step", "1000")]


TABLES = {"full": full, "covering": covering, "small": small}


def programs(table):
    """The rows of each program."""
    of = {}
    for row in TABLES[table]():
        mesh, rule, _, _, model = row[:5]
        whole = f"{mesh}-{model}-{rule}"
        of.setdefault(next(n for n, meshes in PROGRAMS.items() if mesh in meshes) if table == "covering" else whole, []).append(row)
    return of


def heading(header):
    return ["// SPDX-License-Identifier: Apache-2.0", "// Generated by tests/equivalence/table.py.", f'#include "{header}"', ""]


def serial(model):
    # As many micro-batches as a row here has over all its data ranks; one more costs the compiler next to nothing.
    return heading("serial.hpp") + [
        f"template equivalence::serial_run const& equivalence::serial_reference<equivalence::{model}, {count}>();"
        for count in range(1, max(MICRO_BATCHES) * max(mesh[0] * mesh[1] for mesh in MESHES.values()) + 1)]


def source(rows, header, more=""):
    lines = heading(header)
    for n, (mesh, sequence, schedule, micro_batches, model, zero, reduction, bucket) in enumerate(rows):
        # Axes of size 1 stay in the mesh: a schedule needs a pipeline axis to speak of, and ZeRO a data axis.
        axes = ", ".join(f"heddle::axis<heddle::{name}, {size}>" for name, size in zip(AXES, MESHES[mesh]))
        lines += [f"struct row_{n} : equivalence::row<heddle::mesh<{axes}>, {'true' if sequence == 'sequence' else 'false'}, "
                  f"heddle::{schedule}, {micro_batches}, heddle::zero<{zero}, heddle::dp>, "
                  f"heddle::reduce_gradients<heddle::{reduction}>, heddle::bucket<{bucket}>{more}> {{}};",
                  f'TEST_CASE("{mesh} {sequence} {schedule} {micro_batches} micro-batches {model} zero {zero} {reduction} '
                  f'bucket {bucket}") {{',
                  f"  equivalence::compare_with_serial<equivalence::{model}, row_{n}>();", "}"]
    return lines


def write(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def main():
    command = sys.argv[1]
    if command == "models":
        print(*MODELS, sep="\n")
        return
    if command == "serial":
        model, path = sys.argv[2:]
        write(path, serial(model))
        return
    table = sys.argv[2]
    if command == "list":
        for row in TABLES[table]():
            print(*row)
    elif command == "programs":
        print(*programs(table), sep="\n")
    elif command == "source":
        name, path = sys.argv[3], sys.argv[4]
        if table == "small":  # a program by itself
            write(path, source(small(), "serial.hpp", ", heddle::logit_chunk<400>"))
        else:
            write(path, source(programs(table)[name], "equivalence.hpp"))
    else:
        sys.exit(f"table.py: unknown command '{command}'")


if __name__ == "__main__":
    main()
