#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants one fault at a time in a small set of pages: check_docs.py must go red, with the reason."""
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).parent / "check_docs.py"
FENCE = "`" * 3
EXAMPLE = "int main() {\n  // [sum]\n  int a = 1;\n  a += 2;\n  // [/sum]\n  return a;\n}\n"
PAGE = f"# A page\n\n<!-- from examples/a.cpp [sum] -->\n{FENCE}cpp\nint a = 1;\na += 2;\n{FENCE}\nSee [this](docs/b.md).\n"
# what is planted, the page, the example, a word of the message (None: it must pass)
TRIALS = [
    ("nothing", PAGE, EXAMPLE, None),
    ("another language", f"{FENCE}sh\ntools/test\n{FENCE}\n", EXAMPLE, None),
    ("a changed block", PAGE.replace("+= 2", "+= 3"), EXAMPLE, "differs from"),
    ("a changed source", PAGE, EXAMPLE.replace("+= 2", "+= 3"), "differs from"),
    ("a block without source", PAGE.replace("<!-- from", "<!-- by"), EXAMPLE, "without source"),
    ("a source far above", PAGE.replace("-->", "-->\nSome words.\n"), EXAMPLE, "without source"),
    ("no such file", PAGE.replace("a.cpp", "b.cpp"), EXAMPLE, "there is no"),
    ("no such region", PAGE.replace("[sum]", "[product]"), EXAMPLE, "must hold"),
    ("an open region", PAGE, EXAMPLE.replace("// [/sum]", ""), "must hold"),
    ("a file that is not compiled", PAGE.replace("examples/", "docs/"), EXAMPLE, "not compiled"),
    ("a broken link", PAGE.replace("docs/b.md", "docs/c.md"), EXAMPLE, "not there"),
]


def main():
    red = []
    for planted, page, example, reason in TRIALS:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in (("README.md", page), ("examples/a.cpp", example), ("docs/b.md", "# B\n")):
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_text(text)
            run = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)
            if not (run.returncode == 0 if reason is None else run.returncode == 1 and reason in run.stderr):
                red.append(f"planted {planted}; expected: {reason or 'pass'}; got {run.returncode}:\n{run.stderr}")
            if reason == "differs from":
                subprocess.run([sys.executable, SCRIPT, folder, "--update"], check=True, capture_output=True)
                if (root / "README.md").read_text() != PAGE.replace("+= 2", "+= 3" if "+= 3" in example else "+= 2"):
                    red.append(f"--update after {planted} left: {(root / 'README.md').read_text()}")
    if red:
        sys.exit("\n".join(red))
    print(f"{len(TRIALS)} trials")


if __name__ == "__main__":
    main()
