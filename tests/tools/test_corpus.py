#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tools/train with a program in place that only tells its arguments: what is trained, and on which text, where
nothing is said. test_corpus.py ROOT COMPILER"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT, COMPILER = pathlib.Path(sys.argv[1]), sys.argv[2]
DEFAULT = "train-tiny-dp2-pp2-tp2"


class Corpus(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)
        self.command("commands/ninja", "echo ninja: no work to do.")
        for name in ("apt-get", "sudo"):  # whatever this machine lacks
            self.command(f"commands/{name}", "exit 0")

    def command(self, name, text):
        file = self.at / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/bash\n{text}\n")
        file.chmod(0o755)
        return file

    def train(self, compiler, *arguments):
        """The script's end, and the folder of its build, in which there is but the default's program."""
        build = f"build-train-{re.sub('[^A-Za-z0-9+.]', '-', str(compiler))}"
        self.command(f"{build}/tools/train_program/{DEFAULT}", r"printf '%s\n' 'arguments:' " + '"$@"')
        build = self.at / build
        (build / "build.ninja").touch()
        ended = subprocess.run([ROOT / "tools" / "train", *map(str, arguments)], capture_output=True, text=True, timeout=100,
                               env=os.environ | {"PATH": f"{self.at / 'commands'}:{os.environ['PATH']}", "CXX": str(compiler),
                                                 "HEDDLE_BUILD": str(self.at / "build")})
        return ended, build

    def arguments(self, compiler, *arguments):
        """With what the program was called."""
        ended, build = self.train(compiler, *arguments)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""), ended.stdout)
        return ended.stdout.split("arguments:\n")[1].splitlines(), build

    def corpus(self, compiler):
        found, build = self.arguments(compiler, "--steps", 3)
        self.assertEqual(found, ["--steps=3", f"--data={build / 'cxx-headers.txt'}"])
        return (build / "cxx-headers.txt").read_bytes()

    def made_up_compiler(self, *folders):
        """One that looks for headers in these folders, and speaks the user's language."""
        return self.command("made-up", "\n".join(
            ['[ "$1 $2" = "-E -v" ] || exit 1', "exec >&2",
             '[ "$LC_ALL" = C ] || { echo "Die Suche beginnt hier:"; exit 0; }', "echo 'ignoring nonexistent directory \"/nowhere\"'",
             "echo '#include \"...\" search starts here:'", "echo '#include <...> search starts here:'",
             *(f"echo ' {folder}'" for folder in folders), "echo 'End of search list.'"]))

    def test_the_compilers_headers(self):
        seen = subprocess.run([COMPILER, "-E", "-x", "c++", "-"], input="#include <vector>\n", capture_output=True, text=True,
                              check=True).stdout
        folder = pathlib.Path(re.search(r'^# \d+ "(.*)/vector"', seen, re.MULTILINE)[1])
        files = sorted((path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()), key=os.fsencode)
        text = self.corpus(COMPILER)
        self.assertEqual(text, b"".join(path.read_bytes() for path in files))
        self.assertIn(b"namespace std", text)
        self.assertGreater(len(text), 1_000_000)
        self.assertEqual(text, self.corpus(COMPILER))

    def test_the_order_is_that_of_bytes(self):
        other, headers = self.at / "other", self.at / "the headers"
        names = ["Zebra", "_x", "a name", "alpha", "bits.h", "bits/a.h", "bits/b/c.h", "bits_a", "vector"]
        # Made in another order, in which a file system may list them.
        for folder, name in [(other, "array"), *((headers, name) for name in names[::2] + names[1::2])]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"{folder.name}/{name}\n")
        (headers / "link").symlink_to(other / "array")
        self.assertEqual(self.corpus(self.made_up_compiler(other, headers)).decode().splitlines(),
                         [f"the headers/{name}" for name in names])

    def test_a_compiler_without_headers(self):
        ended, _ = self.train(self.made_up_compiler(self.at / "commands"))
        self.assertEqual(ended.returncode, 2, ended.stdout)
        self.assertRegex(ended.stderr, "^tools/train: the standard library's headers were not found through .*made-up; name a "
                                       "text with --data\n$")

    def test_a_text_of_ones_own(self):
        text = self.at / "a text"
        text.write_text("words\n")
        found, build = self.arguments(COMPILER, "--data", text)
        self.assertEqual(found, [f"--data={text}"])
        self.assertFalse((build / "cxx-headers.txt").exists())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
