#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of bench/run/measure.py, with programs that are not run: test_bench.py ROOT"""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "bench" / "run"))
import measure  # noqa: E402


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
        self.assertEqual(row, {"ratio": "a / b", "asked": "<= 3", "median": 2, "least": 2, "greatest": 4, "rounds": 4})

    def test_ratios_are_in_the_table(self):
        table = {"context": {"num_cpus": 2, "mhz_per_cpu": 2445, "load_avg": [0.5]}, "primitives": [], "steps": []}
        self.assertNotIn("## Ratios", "\n".join(measure.markdown(table)))
        table["ratios"] = {"load_avg": [0.1], "rows": [measure.ratio("a / b", "<= 3", [1.5])]}
        self.assertIn("| a / b | 1.50 | 1.50 | 1.50 | 1 | <= 3 |", list(measure.markdown(table)))

    def test_what_is_resident_is_the_ledgers(self):
        step = {"plan": "p", "ledger_bytes": 1e9, "threads": 2, "resident_bytes": 1.05e9 + 2 * measure.OUTSIDE}
        measure.check_memory([step])
        with self.assertRaises(SystemExit):
            measure.check_memory([step | {"resident_bytes": step["resident_bytes"] + 1}])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
