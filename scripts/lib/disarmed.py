# SPDX-License-Identifier: Apache-2.0
"""Compares pairs of spyre_bench results: with fault points (disarmed) and built without any. See scripts/bench-disarmed."""
import json
import pathlib
import statistics
import sys

folder = pathlib.Path(sys.argv[1])


def rows(path):
    return {(row["id"], row["what"]): row for row in json.loads(path.read_text())["rows"]}


pairs = [(rows(with_points), rows(folder / with_points.name.replace("with-", "without-")))
         for with_points in sorted(folder.glob("with-*.json"))]
print("| | figure | with / without, each turn | median |")
print("|---|---|---|---|")
for key in pairs[0][0]:
    ratios = [a[key]["ours"] / b[key]["ours"] for a, b in pairs if key in b]
    if not ratios:
        continue
    print(f"| {key[0]} | {key[1]} | " + " ".join(f"{ratio:.3f}" for ratio in ratios) + f" | {statistics.median(ratios):.3f} |")
