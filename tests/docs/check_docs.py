#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every C++ block of README.md and docs/ is a marked region of a file that is compiled, letter for letter,
and that relative links lead somewhere.

check_docs.py ROOT            red on a block that differs or has no source
check_docs.py ROOT --update   rewrites the blocks from their sources
A block is preceded by the line `<!-- from PATH [NAME] -->`; PATH, below examples/, tests/ or bench/, holds the region
between the lines `// [NAME]` and `// [/NAME]`.
"""
import pathlib
import re
import sys
import textwrap

FENCE = re.compile(r"^(?P<indent>[ \t]*)```(?P<language>[^\n]*)\n(?P<body>.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)
SOURCE = re.compile(r"<!-- from (\S+) \[([\w-]+)\] -->\s*$")
LANGUAGES = ("cpp", "c++", "cc", "cxx", "cuda", "cu", "hpp")
COMPILED = ("examples/", "tests/", "bench/")
MARK = re.compile(r"^\s*//!? \[/?[\w-]+\]\s*$")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


class fault(Exception):
    pass


def pages(root):
    return [path for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))] if path.is_file()]


def region(root, name, mark):
    if not name.startswith(COMPILED):
        raise fault(f"{name} is not compiled with the tests; take the block from {', '.join(COMPILED)}")
    path = root / name
    if not path.is_file():
        raise fault(f"there is no {name}")
    lines = path.read_text().splitlines()
    begin = [at for at, line in enumerate(lines) if re.fullmatch(rf"\s*//!? \[{mark}\]\s*", line)]
    end = [at for at, line in enumerate(lines) if re.fullmatch(rf"\s*//!? \[/{mark}\]\s*", line)]
    if len(begin) != 1 or len(end) != 1 or end[0] <= begin[0] + 1:
        raise fault(f"{name} must hold '// [{mark}]' and, below it, '// [/{mark}]', each once, and code between them")
    kept = [line for line in lines[begin[0] + 1 : end[0]] if not MARK.match(line)]
    return textwrap.dedent("\n".join(kept)) + "\n"


def check(root, page, update):
    """(faults, number of blocks)"""
    text, shown = page.read_text(), page.relative_to(root).as_posix()
    faults, parts, at, count = [], [], 0, 0
    for block in FENCE.finditer(text):
        language = re.split(r"[\s{,]", block["language"].strip().lower())[0]
        if language not in LANGUAGES:
            continue
        count += 1
        line = text.count("\n", 0, block.start()) + 1
        source = SOURCE.search(text[: block.start()])
        try:
            if not source:
                raise fault("a C++ block without source; write '<!-- from PATH [NAME] -->' above it")
            wanted = textwrap.indent(region(root, *source.groups()), block["indent"])
            if wanted != block["body"]:
                if not update:
                    raise fault(f"differs from {source[1]} [{source[2]}]; run tests/docs/check_docs.py . --update")
                parts += [text[at : block.start("body")], wanted]
                at = block.end("body")
        except fault as reason:
            faults.append(f"{shown}:{line}: {reason}")
    if parts:
        page.write_text("".join(parts) + text[at:])
    for target in LINK.findall(FENCE.sub("", text)):
        file = target.split("#")[0]
        if file and not re.match(r"[a-z]+:", file) and not (page.parent / file).exists():
            faults.append(f"{shown}: links to {target}, which is not there")
    return faults, count


def main(root, update):
    every = pages(root)
    if not every:
        sys.exit(f"{root}: holds neither README.md nor docs/")
    faults, blocks = [], 0
    for page in every:
        found, count = check(root, page, update)
        faults += found
        blocks += count
    if faults:
        sys.exit("\n".join(faults))
    print(f"{blocks} blocks on {len(every)} pages")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--update"]):
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]).resolve(), len(sys.argv) == 3)
