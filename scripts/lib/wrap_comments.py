#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wraps comments of C and C++ sources that are longer than a line may be (clang-format leaves comments alone).

  wrap_comments.py [--check] FILE...

Of a comment on lines of its own, what is too much goes to the begin of its next line. A comment behind code goes to a line
of its own above it. A heading loses dashes. Lines with NOLINT and /* */ comments are left as they are.
"""

import re
import sys
from pathlib import Path

COLUMNS = 120
HEADING = re.compile(r"\s*// ---- .*? -+$")
COMMENT = re.compile(r"^(\s*)(///?!?<?) (?=\S)(.*)$")
TRAILING = re.compile(r"^(\s*)(\S.*?)\s+(///?<? .*)$")
# A line that does not go on the one before: a list, an indented example, a heading, a table.
BEGINS = re.compile(r"(\s|[-*•|] |\d+[.)] |----|@|NOLINT|clang-format)")


def goes_on(line: str, prefix: str) -> bool:
    return line.startswith(prefix) and not BEGINS.match(line[len(prefix):]) and line.strip() != prefix.strip()


def wrap(text: str) -> str:
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        if len(line) > COLUMNS and "NOLINT" not in line and not line.endswith("\\"):
            if HEADING.match(line):
                lines[at] = line[:COLUMNS] if line[COLUMNS - 1] == "-" else line.rstrip("-").rstrip()
                continue
            own = COMMENT.match(line)
            behind = None if own else TRAILING.match(line)
            if own:
                prefix = f"{own.group(1)}{own.group(2)} "
                cut = line.rfind(" ", len(prefix), COLUMNS + 1)
                if cut > 0:
                    lines[at], rest = line[:cut].rstrip(), line[cut:].strip()
                    if at + 1 < len(lines) and goes_on(lines[at + 1], prefix):
                        lines[at + 1] = f"{prefix}{rest} {lines[at + 1][len(prefix):]}"
                    else:
                        lines.insert(at + 1, prefix + rest)
            elif behind and '"' not in behind.group(3) and "//" not in behind.group(2):
                lines[at : at + 1] = [behind.group(1) + behind.group(3).replace("///<", "///"), behind.group(1) + behind.group(2)]
                continue
        at += 1
    return "\n".join(lines)


def main() -> int:
    check = sys.argv[1:2] == ["--check"]
    status = 0
    for name in sys.argv[1 + check :]:
        path = Path(name)
        old = path.read_text()
        new = wrap(old)
        for number, line in enumerate(new.split("\n"), 1):
            if len(line) > COLUMNS and COMMENT.match(line) and "NOLINT" not in line and " " in line.split("//", 1)[1].strip():
                print(f"{name}:{number}: a comment of {len(line)} columns", file=sys.stderr)
        if new != old:
            status = 1
            if check:
                print(f"{name}: comments are longer than {COLUMNS} columns (scripts/format)", file=sys.stderr)
            else:
                path.write_text(new)
    return status if check else 0


if __name__ == "__main__":
    sys.exit(main())
