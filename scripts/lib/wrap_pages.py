#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wraps the text of Markdown pages at 120 characters: paragraphs and list items that have a longer line.

  wrap_pages.py FILE...            in place
  wrap_pages.py --check FILE...    changes nothing; names the files that are not wrapped, exit code 1

Tables, code blocks, headings and HTML comments stay as they are. A word longer than a line stays whole.
"""

import re
import sys
import textwrap
from pathlib import Path

WIDTH = 120
ITEM = re.compile(r"(\s*(?:[-*]|\d+\.)\s+)(.*)")
# What is no text: a table's row, a heading, a quote, a comment, an indented block.
FIXED = re.compile(r"\s*\||#|>|<!--|    ")


def wrapped(lines: list[str]) -> list[str]:
    """One paragraph or list item."""
    if all(len(line) <= WIDTH for line in lines):
        return lines
    item = ITEM.match(lines[0])
    first = item.group(1) if item else re.match(r"\s*", lines[0]).group(0)
    later = " " * len(first)
    text = " ".join(line.strip() for line in [item.group(2) if item else lines[0], *lines[1:]])
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False,
                         break_on_hyphens=False)


def wrap_page(text: str) -> str:
    done: list[str] = []
    block: list[str] = []
    in_code = False

    def end_block() -> None:
        if block:
            done.extend(wrapped(block))
            block.clear()

    for line in text.split("\n"):
        fence = line.lstrip().startswith("```")
        if fence or in_code or not line.strip() or (FIXED.match(line) and not (block and line.startswith("    "))):
            end_block()
            done.append(line)
            in_code ^= fence
            continue
        if ITEM.match(line):
            end_block()
        block.append(line)
    end_block()
    return "\n".join(done)


def main() -> int:
    check = sys.argv[1:2] == ["--check"]
    wrong = 0
    for name in sys.argv[1 + check:]:
        text = Path(name).read_text()
        page = wrap_page(text)
        if page == text:
            continue
        wrong += 1
        if check:
            print(f"{name}: a line of text is longer than {WIDTH} characters")
        else:
            Path(name).write_text(page)
    return 1 if check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
