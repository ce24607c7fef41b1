#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tools/train's progress bar around programs that only talk, on a terminal and not: test_progress.py ROOT

Without a Python that has tqdm: skipped (77).
"""
import fcntl
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

PROGRESS = pathlib.Path(sys.argv[1]) / "tools" / "train_program" / "progress.py"
COLUMNS = 90
STEPS = """
print("before", *sys.argv[1:])
for n in (1, 2, 3):
    print(f"\\x1e{n} 3 {4 - n}.5 {n}234.5 0:0{3 - n}")
    if n == 2:
        print("between")
print("\\x1eend")
print("after")
sys.exit(3)
"""
TALK = """
print("no step")
print("at all")
"""
KILLED = """
os.kill(os.getpid(), signal.SIGTERM)
"""
INTERRUPTED = """
def end(*_):
    print("ends in its own time")
    sys.exit(130)
signal.signal(signal.SIGINT, end)
print("ready", flush=True)
signal.pause()
"""


def python_with_tqdm():
    for python in ("python3", "/usr/bin/python3"):  # as tools/train looks for it
        if shutil.which(python) and subprocess.run([python, "-c", "import tqdm"], capture_output=True).returncode == 0:
            return python
    print("skipped: no Python here has tqdm")
    sys.exit(77)


class Progress(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = pathlib.Path(folder.name) / "program"

    def command(self, text):
        self.program.write_text(f"#!{sys.executable}\nimport os, signal, sys\n{text}")
        self.program.chmod(0o755)
        return [PYTHON, PROGRESS, self.program, "one", "two words"]

    def piped(self, text):
        ended = subprocess.run(self.command(text), capture_output=True, text=True, timeout=30)
        self.assertEqual(ended.stderr, "")
        return ended.returncode, ended.stdout

    def on_terminal(self, text):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        with subprocess.Popen(self.command(text), stdin=theirs, stdout=theirs, stderr=theirs) as program:
            os.close(theirs)
            said = b""
            while True:
                try:
                    more = os.read(ours, 4096)
                except OSError:  # Linux's way to say that nobody writes any more
                    more = b""
                if not more:
                    break
                said += more
        os.close(ours)
        return program.returncode, said.decode()

    def test_steps_are_a_bar_and_the_rest_stands_above_it(self):
        for kind in (self.piped, self.on_terminal):
            with self.subTest(kind=kind.__name__):
                status, said = kind(STEPS)
                self.assertEqual(status, 3)
                self.assertNotIn("\x1e", said)
                lines = [line.strip() for line in re.split(r"[\r\n]+", said)]
                self.assertLess(lines.index("before one two words --records"), lines.index("between"))
                self.assertLess(lines.index("between"), lines.index("after"))
                bars = [line for line in lines if line.startswith("step ")]
                self.assertRegex(bars[-1], r"^step 3/3  loss 1\.5  3,23[45] tokens/s  0:00 left \|█+\|$")
                self.assertLess(lines.index(bars[-1]), lines.index("after"))
                if kind == self.on_terminal:
                    self.assertLessEqual(len(bars[-1]), COLUMNS)
                    self.assertGreater(len(bars[-1]), COLUMNS - 5)

    def test_a_program_without_steps_has_no_bar(self):
        self.assertEqual(self.piped(TALK), (0, "no step\nat all\n"))
        self.assertEqual(self.on_terminal(TALK), (0, "no step\r\nat all\r\n"))

    def test_a_signal_becomes_the_shells_status(self):
        self.assertEqual(self.piped(KILLED)[0], 128 + signal.SIGTERM)

    def test_an_interrupt_is_the_programs_affair(self):
        with subprocess.Popen(self.command(INTERRUPTED), stdout=subprocess.PIPE, text=True, start_new_session=True) as bar:
            self.assertEqual(bar.stdout.readline(), "ready\n")
            os.killpg(bar.pid, signal.SIGINT)
            self.assertEqual(bar.stdout.read(), "ends in its own time\n")
        self.assertEqual(bar.returncode, 130)


if __name__ == "__main__":
    PYTHON = python_with_tqdm()
    unittest.main(argv=[sys.argv[0]])
