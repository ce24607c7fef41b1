#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The harness must go red when a case compiles, is refused for another reason, or is written wrongly.

test_harness.py check_rejection.py -- COMPILER ARGUMENTS...
"""
import pathlib
import subprocess
import sys
import tempfile

HEAD = "template <int N> struct odd { static_assert(N % 2 == 1, \"odd<N>: 'N' must be odd; add 1\"); };\n"
GOOD = "#if defined(REJECT_EVEN)  // expect: 'N' must be odd\n// shows: odd<4\ntemplate struct odd<4>;\n"
CONTROL = "#else\ntemplate struct odd<3>;\n#endif\n"

# what is planted, the text, the case, a word of the harness's own message (None: it must pass)
TRIALS = [
    ("nothing", HEAD + GOOD + CONTROL, "REJECT_EVEN", None),
    ("nothing, control", HEAD + GOOD + CONTROL, "control", None),
    ("another message", HEAD.replace("must be odd", "must not be even") + GOOD + CONTROL, "REJECT_EVEN", "another reason"),
    ("a misspelled name", HEAD + GOOD.replace("struct odd<4>", "struct od<4>") + CONTROL, "REJECT_EVEN", "another reason"),
    ("a later error only", HEAD + GOOD.replace("template struct", "no_such_name n;\ntemplate struct") + CONTROL,
     "REJECT_EVEN", "another reason"),
    ("a remedy in the first error", HEAD + GOOD.replace("// shows: odd<4", "// expect: add 1") + CONTROL, "REJECT_EVEN", None),
    ("a remedy elsewhere", HEAD + GOOD.replace("shows:", "expect:") + CONTROL, "REJECT_EVEN", "another reason"),
    ("another value", HEAD + GOOD.replace("odd<4>", "odd<6>") + CONTROL, "REJECT_EVEN", "does not show"),
    ("few errors", HEAD + GOOD.replace("odd<4\n", "odd<4\n// errors: at most 1\n") + CONTROL, "REJECT_EVEN", None),
    ("too many errors", HEAD + GOOD.replace("odd<4\n", "odd<4\n// errors: at most 1\n") + "no_such_name n;\n" + CONTROL,
     "REJECT_EVEN", "at most 1"),
    ("a case that compiles", HEAD + GOOD.replace("odd<4>", "odd<5>") + CONTROL, "REJECT_EVEN", "and compiles"),
    ("a broken control", HEAD + GOOD + CONTROL.replace("odd<3>", "odd<2>"), "control", "control must compile"),
    ("no expected text", HEAD + GOOD.replace("expect:", "because") + CONTROL, "REJECT_EVEN", "has no text"),
    ("the same case twice", HEAD + GOOD + GOOD.replace("#if", "#elif") + CONTROL, "REJECT_EVEN", "stands twice"),
    ("another form of condition", HEAD + GOOD.replace("#if defined(REJECT_EVEN)", "#ifdef REJECT_EVEN") + CONTROL,
     "REJECT_EVEN", "must open with"),
    ("no such case", HEAD + GOOD + CONTROL, "REJECT_ODD", "has no case"),
    ("no case", HEAD, "control", "holds no case"),
]


def main(script, command):
    red = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trial.cpp"
        for planted, text, case, reason in TRIALS:
            path.write_text(text)
            run = subprocess.run([sys.executable, script, path, case, "--", *command], capture_output=True, text=True)
            right = run.returncode == 0 if reason is None else run.returncode != 0 and reason in run.stderr
            if not right:
                red.append(f"planted: {planted}; expected: {reason or 'pass'}; got {run.returncode}:\n{run.stdout}{run.stderr}")
        path.write_text(HEAD + GOOD + CONTROL)
        for named, right in [(["trial.cpp:control", "trial.cpp:REJECT_EVEN"], 0), (["trial.cpp:control"], 1)]:
            run = subprocess.run([sys.executable, script, "--complete", folder, *named], capture_output=True, text=True)
            if run.returncode != right:
                red.append(f"--complete {named} gave {run.returncode}: {run.stderr}")
    if red:
        sys.exit("\n".join(red))
    print(f"{len(TRIALS) + 2} trials")


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[2] != "--":
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[3:])
