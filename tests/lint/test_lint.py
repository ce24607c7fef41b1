#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants one fault at a time in a small tree: the lint gates must go red, with the reason: test_lint.py ROOT"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"
SOUND = LICENCE + """#pragma once

namespace heddle {

template <class T>
concept Small = sizeof(T) < 9;

inline int twice(int number) { return 2 * number; }

}  // namespace heddle
"""
HEADER = "include/heddle/a.hpp"
# what is planted, the gate, the file, its text, a word of the message (None: it must pass)
TRIALS = [
    ("nothing", "tree", HEADER, SOUND, None),
    ("nothing", "format", HEADER, SOUND, None),
    ("nothing", "tidy", HEADER, SOUND, None),
    ("no licence line", "tree", HEADER, SOUND[len(LICENCE):], "SPDX"),
    ("no licence line in a script", "tree", "tools/a", "#!/bin/sh\n", "SPDX"),
    ("no guard", "tree", HEADER, SOUND.replace("#pragma once\n", ""), "pragma once"),
    ("a long header", "tree", HEADER, SOUND + 400 * "\n", "at most 400"),
    ("a concept's name", "tree", HEADER, SOUND.replace("Small", "is_small"), "PascalCase"),
    ("a machine's path", "tree", "docs/a.md", "see /" + "home/me/a.txt\n", "path of one machine"),
    ("a stray file", "tree", "notes/a.md", "text\n", "docs/layout.md"),
    ("a large file", "tree", "tests/a.csv", (1 << 20) * "1" + "1", "larger than"),
    ("a switched-off check", "tree", "tests/a.cpp", LICENCE + "// CH" + "ECK(1 == 2);\n", "switched off"),
    ("an unfinished part", "tree", HEADER, SOUND + "// TO" + "DO\n", "unfinished"),
    ("an own main", "tree", "tests/a.cpp", LICENCE + "#define DOCTEST_CONFIG_" + "IMPLEMENT_WITH_MAIN\n", "test_dep"),
    ("a Pascal type in a test", "tree", "tests/a.cpp", LICENCE + "struct Two {};\n", "type 'Two' must be snake_case"),
    ("a Pascal alias in a test", "tree", "tests/a.cpp", LICENCE + "using Two = int;\n", "type 'Two' must be snake_case"),
    ("a Pascal function in a test", "tree", "tests/a.cpp", LICENCE + "inline int TwiceOf(int n) { return 2 * n; }\n", "TwiceOf"),
    ("a camel name in a test", "tree", "tests/a.cpp", LICENCE + "int const twoTimes = 2;\n", "name 'twoTimes'"),
    ("CUDA's own names", "tree", "tests/a.cu", LICENCE + "int n = threadIdx.x + cudaSuccess;\n", None),
    ("a camel name in a text", "tree", "tests/a.cpp", LICENCE + 'char const* t = "twoTimes";  // oneTime\n', None),
    ("a snake parameter in a test", "tree", "tests/a.cpp", LICENCE + "template <class t, int N>\nstruct a {};\n",
     "template parameter 't'"),
    ("a bare macro in a test", "tree", "tests/a.cpp", LICENCE + "#define TWICE 2\n", "macro 'TWICE'"),
    ("a crooked line", "format", HEADER, SOUND.replace("2 * number", "2*number"), "clang-format"),
    ("a Pascal function", "tidy", HEADER, SOUND.replace("twice", "TwiceOf"), "invalid case style"),
    ("a snake parameter", "tidy", HEADER, SOUND.replace("class T>", "class t>").replace("(T)", "(t)"), "invalid case style"),
    ("a bare macro", "tidy", HEADER, SOUND + "#define TWICE 2\n", "invalid case style"),
]


def main(root):
    red, skipped = [], set()
    for planted, gate, name, text, reason in TRIALS:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True)
            path.write_text(text)
            for settings in (".clang-format", ".clang-tidy"):
                shutil.copy(root / settings, folder)
            call = [HERE / "check_tree.py", folder] if gate == "tree" else [HERE / "check_format.py", gate, folder]
            run = subprocess.run([sys.executable, *call], capture_output=True, text=True)
        if run.returncode == 77:
            skipped.add(gate)
        elif not (run.returncode == 0 if reason is None else run.returncode == 1 and reason in run.stderr):
            red.append(f"{gate}: planted {planted}; expected: {reason or 'pass'}; got {run.returncode}:\n{run.stderr}")
    if red:
        sys.exit("\n".join(red))
    print(f"{len(TRIALS)} trials; without tool: {', '.join(skipped) or 'none'}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]).resolve())
