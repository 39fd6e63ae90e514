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
print("| | figure | with, best round | without, best round | of the best | of the turns: median, middle half |")
print("|---|---|---|---|---|---|")
for key in pairs[0][0]:
    both = [(a[key], b[key]) for a, b in pairs if key in b]
    if len(both) < 2:
        continue
    best = max if both[0][0]["unit"] == "1/s" else min
    with_points, without = (best(value for pair in both for value in pair[side]["rounds"]) for side in (0, 1))
    ratios = [a["ours"] / b["ours"] for a, b in both]
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(f"| {key[0]} | {key[1]} | {with_points:.4g} {both[0][0]['unit']} | {without:.4g} | {with_points / without:.3f} | {middle:.3f}, {low:.3f} to {high:.3f} |")
