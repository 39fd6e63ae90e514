# SPDX-License-Identifier: Apache-2.0
"""How far a result of an operation may be from the exact one stands once, in the operation table (and for models in
transformer.hpp). No test, benchmark or command compares an error with a number of its own, except where a line says why:
"own bound: <reason>". Shown on planted lines first."""

import re
import subprocess
import sys
from pathlib import Path

root = Path(sys.argv[1])
# Whoever judges results of operations. Not the functions of shared/ that the bounds are made of.
JUDGES = ("tests/bench", "tests/conformance", "tests/consumer", "tests/device", "tests/model", "tests/support",
          "tests/unit/host_driver/ops", "tests/validation", "host_driver/cli", "host_driver/ops", "host_driver/models")

SMALL = r"-?(?:0?\.\d+|\d+(?:\.\d+)?e-\d+|0x1p-\d+)f?\b"
# An error: a distance of two numbers, or what is called so.
ERROR = r"(?:(?:\b|_)(?:f?abs|difference|error|deviation|distance)\b)"
OWN_BOUND = re.compile(
    rf"{ERROR}[^;\"]*(?:<=?|>=?)\s*{SMALL}|_[LG][TE]\([^;\"]*{ERROR}[^;\"]*,\s*{SMALL}\s*\)|_NEAR\([^;]*,\s*{SMALL}\s*\)|"
    rf"\b(?:Float|Double)Near\([^;]*,\s*{SMALL}\s*\)|\b(?:tolerance|rtol|atol)\s*=\s*{SMALL}")
EXPLAINED = re.compile(r"own bound: (?:\S+\s+){2}\S+")


def own_bounds(text: str) -> list[int]:
    """Lines on which a statement begins that compares an error with a number."""
    lines = text.splitlines()
    found = []
    for number, line in enumerate(lines):
        statement = line if ";" in line else " ".join([line.split("//")[0].strip(), *map(str.strip, lines[number + 1:number + 3])])
        match = OWN_BOUND.search(statement)
        if match and match.start() < len(line.strip()) and not any(map(EXPLAINED.search, lines[max(0, number - 1):number + 3])):
            found.append(number + 1)
    return found


REFUSED = (
    "EXPECT_LT(std::abs(got - expected), 1e-3);",
    "require(std::fabs(x - y) <= 0.05 * largest, \"wrong\");",
    "EXPECT_NEAR(value, exact, 0.01);",
    "EXPECT_THAT(value, DoubleNear(exact, 1e-6));",
    "constexpr double tolerance = 1e-2;",
    "EXPECT_LE(relative_error, 0x1p-10);",
    "ASSERT_NEAR(first,\n            second, 1e-3f);",
)
ALLOWED = (
    "EXPECT_LE(relative_error, bound_of(info, type).relative);",
    "EXPECT_NEAR(value, exact, models::kLogitBound * largest);",
    "EXPECT_LT(std::abs(got - expected), 1e-3);  // own bound: of the clock's fit",
    "EXPECT_GT(x, 0.5);",
    "EXPECT_EQ(report.error, 0.01);",
)
wrong = [plant for plant in REFUSED if not own_bounds(plant)] + [plant for plant in ALLOWED if own_bounds(plant)]
if wrong:
    sys.exit("the rule fails on: " + "\n".join(wrong))

# bounded: git lists files and ends
listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "--", *JUDGES], check=True,
                        capture_output=True, text=True).stdout.split()
sources = [path for path in listed if Path(path).suffix in {".cpp", ".hpp", ".c", ".h", ".py"} and (root / path).is_file()]
count = 0
for path in sources:
    for line in own_bounds((root / path).read_text()):
        print(f"{path}:{line}: an error is compared with a number; the bound stands in the operation table (bound_of()), "
              "or the line says \"own bound: <reason>\"")
        count += 1
print(f"{len(sources)} sources, {count} bounds of their own")
sys.exit(1 if count or len(sources) < 300 else 0)
