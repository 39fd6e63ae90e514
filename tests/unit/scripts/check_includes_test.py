# SPDX-License-Identifier: Apache-2.0
"""scripts/check-includes is clean on this tree, and refuses what it has to: planted includes, one per kind."""

import importlib.machinery
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

root = Path(sys.argv[1])
script = root / "scripts/check-includes"
loader = importlib.machinery.SourceFileLoader("check_includes", str(script))
spec = importlib.util.spec_from_loader("check_includes", loader)
sys.dont_write_bytecode = True
rules = importlib.util.module_from_spec(spec)
loader.exec_module(rules)

REFUSED = {
    "host_driver/device/planted.cpp": "qemu/machine.hpp",  # the driver and the emulator
    "host_driver/frontend/planted.cpp": "qemu/card.hpp",  # the exception is for one file
    "host_driver/cli/planted.cpp": "tests/validation/soak/soak.hpp",  # the product and test equipment
    "host_driver/transport/planted.hpp": "host_driver/device/device.hpp",  # upwards
    "host_driver/tensor/planted.hpp": "host_driver/memory/region.hpp",  # sideways
    "shared/planted.hpp": "host_driver/base/error.hpp",  # the contract
    "firmware/core/planted.cpp": "firmware/arch/riscv/timer.hpp",  # round the hal
    "firmware/core/planted2.cpp": "firmware/hal/memory_map.h",  # addresses in core
    "firmware/arch/riscv/planted.S": "firmware/platform/virt/slots.hpp",  # both ways
    "host_driver/base/planted.cpp": "error.hpp",  # relative to its own folder
    "include/spyre/planted.hpp": "shared/units.hpp",  # an installed header and the inside
    "include/spyre/planted2.hpp": "<nlohmann/json.hpp>",  # and another project
    "firmware/core/planted3.cpp": "<spyre/error.hpp>",  # the card and the API
    "tests/consumer/planted.cpp": "host_driver/base/error.hpp",  # a project outside of this one
    "nowhere/planted.cpp": "shared/units.hpp",  # a folder without a rule
}
ALLOWED = {
    "host_driver/frontend/context.cpp": "qemu/embedded_function.hpp",
    "host_driver/device/allowed.cpp": "host_driver/transport/window.hpp",
    "firmware/platform/virt/allowed.cpp": "firmware/arch/riscv/mmio.hpp",
    "host_driver/tensor/allowed.cpp": "hwy/highway.h",
    "include/spyre/allowed.hpp": "<spyre/error.hpp>",
    "host_driver/base/allowed.hpp": "<spyre/error.hpp>",
}


def run(*words: str) -> subprocess.CompletedProcess:
    # bounded: git lists and ends
    return subprocess.run([str(script), *words], capture_output=True, text=True, check=False)


with tempfile.TemporaryDirectory() as folder:
    for path, target in {**REFUSED, **ALLOWED}.items():
        file = Path(folder) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        header = target if target.startswith("<") else f'"{target}"'
        file.write_text(f"#include <vector>\n  #  include {header}\n")
    planted = run("--root", folder, *REFUSED)
    assert planted.returncode == 1, planted
    assert len(planted.stdout.splitlines()) == len(REFUSED), planted.stdout
    for path in REFUSED:
        assert f"{path}:2: " in planted.stdout, path
    allowed = run("--root", folder, *ALLOWED)
    assert allowed.returncode == 0, allowed.stdout

# What the emulator's plugin is compiled from, also by way of another header.
licence = f"// {rules.LICENCE}\n"
with tempfile.TemporaryDirectory() as folder:
    texts = {
        "qemu/array/planted.cpp": licence + '#include "shared/good.hpp"\n',
        "shared/good.hpp": licence + '#include "shared/bad.hpp"\n',
        "shared/bad.hpp": "// SPDX-License-Identifier: Apache-2.0\n",
        "shared/other.hpp": "// SPDX-License-Identifier: Apache-2.0\n",
    }
    for path, text in texts.items():
        file = Path(folder) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    planted = run("--root", folder, *texts)
    assert planted.returncode == 1, planted
    assert [line.split(":")[0] for line in planted.stdout.splitlines()] == ["shared/bad.hpp"], planted.stdout

# A circle between two folders cannot be written down.
rules.RULES["shared"] = "host_driver/base"
assert rules.check_rules() == ["RULES: shared names host_driver/base, which does not stand above it"]

tree = run()
assert tree.returncode == 0, tree.stdout
