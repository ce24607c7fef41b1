#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tools/setup where something is missing, with commands that only look at what they are given: test_setup.py ROOT"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv[1])


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)
        self.command("g++", "exit 1")  # no header is found
        self.command("apt-get", 'echo "$DEBIAN_FRONTEND $*" >> "$(dirname "$0")/asked"')

    def command(self, name, text):
        (self.at / name).write_text(f"#!/bin/bash\n{text}\n")
        (self.at / name).chmod(0o755)

    def run_as(self, user, *sets):
        self.command("id", f"echo {user}")
        path = f"{self.at}:{os.environ['PATH']}"
        return subprocess.run([ROOT / "tools" / "setup", *sets], capture_output=True, text=True, env=os.environ | {"PATH": path})

    def test_packages_are_installed_without_a_question(self):
        # As sudo does by default (env_reset); root has no need of it, and a small machine may not have it.
        for user, sudo in ((0, "exit 1"), (1000, 'exec env -i PATH="$PATH" "$@"')):
            with self.subTest(user=user):
                self.command("sudo", sudo)
                ended = self.run_as(user, "test")
                self.assertEqual(ended.returncode, 0, ended.stderr)
                asked = (self.at / "asked").read_text().splitlines()
                (self.at / "asked").unlink()
                self.assertEqual(asked[0], "noninteractive update -qq")
                self.assertRegex(asked[1], "^noninteractive install -qq -y .*libeigen3-dev.* doctest-dev")
                self.assertEqual(len(asked), 2)

    def test_nothing_is_asked_where_all_is_there(self):
        self.command("g++", "cat > /dev/null")  # every header is found
        for name in ("meson", "ninja", "clang++", "clang-tidy-14", "clang-format-14", "cmake", "pkg-config"):
            self.command(name, "exit 0")
        ended = self.run_as(1000, "train", "test", "plan")
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "", ""))
        self.assertFalse((self.at / "asked").exists())

    def test_a_set_that_is_not_there(self):
        ended = self.run_as(0, "everything")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("no set 'everything'", ended.stderr)
        self.assertFalse((self.at / "asked").exists())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
