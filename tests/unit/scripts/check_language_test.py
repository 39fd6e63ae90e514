# SPDX-License-Identifier: Apache-2.0
"""scripts/check-language is clean on this tree, and refuses what it has to."""

import subprocess
import sys
import tempfile
from pathlib import Path

root = Path(sys.argv[1])
script = root / "scripts/check-language"


def run(*words: str) -> subprocess.CompletedProcess:
    # bounded: it reads files and ends
    return subprocess.run([str(script), *words], capture_output=True, text=True, check=False)


REFUSED = ["// the bell is lost", "int last_rung = 0;", "enum class LastRung {};", 'log("the culprit");', "K_BURIAL",
           "void bell_to_card();", "Weather weather;", "kHollowBells",
           "// for the life of the card", "int kStrikes = 3;", "bool turn(Card&);", "// nobody hears of it"]
ALLOWED = ["// the doorbell is lost", "int prune_wrung = 0;", 'case Point::Doorbell: return "bell";', "skyline bellow",
           '{"point": "bell-to-card"}', "// kernels run in turn", 'boot("watchdog=2 strikes=3");', "int lifetime = returned;"]
with tempfile.TemporaryDirectory() as folder:
    for number, line in enumerate(REFUSED + ALLOWED):
        (Path(folder) / f"{number}.cpp").write_text("// first\n" + line + "\n")
    planted = run("--root", folder, *(f"{n}.cpp" for n in range(len(REFUSED))))
    assert planted.returncode == 1
    for number in range(len(REFUSED)):
        assert f"{number}.cpp:2: " in planted.stdout, (REFUSED[number], planted.stdout)
    names = (f"{len(REFUSED) + n}.cpp" for n in range(len(ALLOWED)))
    allowed = run("--root", folder, *names)
    assert allowed.returncode == 0, allowed.stdout

tree = run()
assert tree.returncode == 0, tree.stdout
