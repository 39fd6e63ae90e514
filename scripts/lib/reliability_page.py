# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reliability.md from the outputs that scripts/reliability collected in a folder."""
import datetime
import json
import pathlib
import subprocess
import sys

folder, resets, minutes, cpus = pathlib.Path(sys.argv[1]), *sys.argv[2:5]


def load(name):
    return json.loads((folder / f"{name}.json").read_text())


def milliseconds(times, key):
    if key not in times:
        return "–"
    return f"{times[key]['median']:.1f} / {times[key]['worst']:.1f}"


# bounded: it prints one line and ends
commit = subprocess.run(["git", "log", "-1", "--format=%h"], cwd=pathlib.Path(__file__).parent, check=True, capture_output=True,
                        text=True).stdout.strip()
repeat, mutants = load("repeat"), load("mutants")["mutants"]
print(f"""# Reliability

What `spyre fault campaign` proves, by numbers. This page is written by a run: `scripts/reliability --write` ({cpus} CPUs, shared by card and host). What the scenarios prove, and how: `docs/campaign.md`; how to break a card yourself: `docs/faults.md`; what each reset leaves: `docs/recovery.md`. The run was on {datetime.date.today()}, of commit {commit}.

## {len(repeat['scenarios'])} scenarios, five proofs

| run | passed | seconds |
|---|---|---|""")
for seed in (1, 2, 3):
    run = load(f"seed-{seed}")
    print(f"| `spyre fault campaign --seed {seed}` | {run['passed']} of {len(run['scenarios'])} | {run['seconds']:.1f} |")
print(f"| `spyre fault campaign --repeat {repeat['repeat']}` | {repeat['passed']} of {len(repeat['scenarios'])}, in every run | {repeat['seconds']:.1f} |")
for one in repeat["scenarios"]:
    for run in one["not_passed"]:
        missing = "; ".join(f"{proof}: {seen}" for proof, seen in run["missing"].items())
        print(f"\nNot passed: {one['id']} with seed {run['seed']} ({run['verdict']}): {missing} {run.get('trouble', '')}")
killed = sum(one["found"] == "killed" for one in mutants)
print(f"""
A scenario has to fail where what it shows is missing. `spyre-mutant` ran **{len(mutants)} mutants** of firmware, driver and broker, each with one check left out and a control run beside it: **{killed} were killed** by the claim that they name, and by nothing else, in {sum(one['seconds'] for one in mutants):.0f} s.""")
for one in mutants:
    if one["found"] != "killed":
        print(f"\nNot so: {one['name']} ({one['not_done']}): {one['found']}. {one['seen']}")
print(f"""
## Times

From the moment at which the fault is triggered, in milliseconds of wall time: median / worst of {repeat['repeat']} runs. *Detect*: the typed outcome is in the caller's hands. *Contain*: the neighbours have been found whole and go on. *Recover*: the first good job has ended.

| id | scenario | check | detect | contain | recover | mutants killed |
|---|---|---|---|---|---|---|""")
for one in repeat["scenarios"]:
    cells = [milliseconds(one["times"], key) for key in ("detect", "contain", "recover")]
    its = [m["found"] == "killed" for m in mutants if m["scenario"] == one["id"]]
    print(f"| {one['id']} | {one['title']} | {one['check']} | " + " | ".join(cells) + f" | {sum(its)} of {len(its)} |")
print(f"""
F4, F15 and F26 wait for a reply that never comes: their time is the bound that the campaign gives such a wait (5 s). F16's is the watchdog over hart 0's loop, set to 250 ms there (default 5 s).

## Reset levels

`reset_levels_bench --count {resets}`, a loaded card, nothing left behind:

```
{(folder / 'resets.txt').read_text().rstrip()}
```""")

owners = [line.strip() for line in (folder / "owners.txt").read_text().splitlines() if line.startswith("  ")]
print(f"""
## Owners without end

Owners of one card without a power cycle, each a process, a third of them killed at a random moment; each finds nothing of the last, and card, broker and emulator hold afterwards what they held before (`cards_owners_without_end_device_test`):

```""")
print("\n".join(owners))
print("```")

print("""
## Copies of tensors

Random tensors, layouts, views and formats, copied between host and card and on the card; every byte of host memory and of the card's tensors compared with a model (`runtime_tensor_copy_device_test`):

```""")
for function in ("PF", "VF"):
    lines = (folder / f"copies-{function}.txt").read_text().splitlines()
    print("\n".join(f"{function}: {line}" for line in lines if " copies: " in line or "FAILED" in line))
print("```")

soak = load("soak")
print(f"""
## Soak

`spyre soak --minutes {minutes} --seed {soak['seed']}`: **{'clean' if soak['clean'] else 'NOT clean'}** after {soak['seconds']:.0f} s. PF and VF1 run kernels and transfers by way of streams and launch plans; VF2 to VF4 send control blocks of which they know how each has to end. *Undisturbed*: batches with no disturbance since the last that was right, where nothing but what was expected is accepted. *Counters*: how often the card's counters were compared with the owner's, and equal.

| function | blocks | batches | undisturbed | MiB compared | stream, queue, function resets | attached | counters |
|---|---|---|---|---|---|---|---|""")
for one in soak["clients"]:
    print(f"| {one['function']} | {one['blocks']} | {one['batches']} | {one['strict']} | {one['bytes_checked'] >> 20} | {one['stream_resets']}, {one['queue_resets']}, {one['function_resets']} | {one['attachments']} | {one['statistics']} |")
print("""
| function | results right | wrong | stream resets | attached |
|---|---|---|---|---|""")
for one in soak["workloads"]:
    print(f"| {one['function']} | {one['results_right']} | {one['results_wrong']} | {one['stream_resets']} | {one['attachments']} |")
print("""
| disturbance | times |
|---|---|""")
for name, count in soak["events"].items():
    print(f"| {name} | {count} |")
print("""
| fault | armed | fired |
|---|---|---|""")
for name, count in soak["faults"].items():
    print(f"| {name} | {count['armed']} | {count['fired']} |")
for text in soak["complaints"] + soak["left"]:
    print(f"\n* {text}")
