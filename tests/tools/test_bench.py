#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The arithmetic and the tables of what measures (bench/run, bench/compile, bench/peers), with programs that are not run:
test_bench.py ROOT"""
import importlib.util
import json
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
BENCH = pathlib.Path(sys.argv[1]) / "bench"
sys.path.insert(0, str(BENCH / "run"))
import measure  # noqa: E402


def script(path):
    """One of several that have the same name."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


class Bench(unittest.TestCase):
    def test_a_pair_is_measured_in_turn_and_each_goes_first_as_often(self):
        order = []

        def measured(name):
            def one():
                order.append(name)
                return len(order)
            return one

        self.assertEqual(measure.in_turn(3, measured("a"), measured("b")), [(1, 2), (4, 3), (5, 6)])
        self.assertEqual("".join(order), "abbaab")

    def test_a_ratio_is_the_median_of_the_rounds_and_not_of_the_figures(self):
        # A machine that becomes twice as slow in the last round, and once between the two of a round.
        rounds = [(10, 5), (10, 5), (20, 10), (20, 5)]
        row = measure.ratio("a / b", "<= 3", [a / b for a, b in rounds])
        self.assertEqual(len(row.pop("load")), 3)
        self.assertEqual(row, {"ratio": "a / b", "asked": "<= 3", "median": 2, "least": 2, "greatest": 4, "rounds": 4})

    def test_ratios_are_in_the_table(self):
        table = {"context": {"num_cpus": 2, "mhz_per_cpu": 2445, "load_avg": [0.5]}, "primitives": [], "steps": []}
        self.assertNotIn("## Ratios", "\n".join(measure.markdown(table)))
        table["ratios"] = measure.joined_ratios(None, [measure.ratio("a / b", "<= 3", [1.5]) | {"load": [0.5, 1.0, 2.0]}])
        self.assertIn("| a / b | 1.50 | 1.50 | 1.50 | 1 | <= 3 | 0.5, 1.0, 2.0 |", list(measure.markdown(table)))

    def test_ratios_of_one_run_take_the_place_of_their_own_names_on_this_machine_alone(self):
        first = measure.joined_ratios(None, [measure.ratio("a", "", [1.0]), measure.ratio("b", "", [2.0])])
        second = measure.joined_ratios(first, [measure.ratio("b", "", [3.0]), measure.ratio("c", "", [4.0])])
        self.assertEqual([(row["ratio"], row["median"]) for row in second["rows"]], [("a", 1), ("b", 3), ("c", 4)])
        elsewhere = first | {"machine": {"cores": 1000, "vectors": "none"}}
        self.assertEqual([row["ratio"] for row in measure.joined_ratios(elsewhere, second["rows"][1:2])["rows"]], ["b"])

    def test_what_is_resident_is_the_ledgers(self):
        step = {"plan": "p", "ledger_bytes": 1e9, "threads": 2, "resident_bytes": 1.05e9 + 2 * measure.OUTSIDE}
        measure.check_memory([step])
        with self.assertRaises(SystemExit):
            measure.check_memory([step | {"resident_bytes": step["resident_bytes"] + 1}])

    def test_checked_in_tables_are_what_their_scripts_write(self):
        for folder, name in (("run", "measure"), ("compile", "measure"), ("peers", "compare")):
            with self.subTest(folder):
                table = json.loads((BENCH / folder / "table.json").read_text())
                written = "\n".join(script(BENCH / folder / f"{name}.py").markdown(table)) + "\n"
                self.assertEqual(written, (BENCH / folder / "table.md").read_text())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
