"""Each extra of pyproject.toml by itself, in the environment that `make test-extras` made for it: a
line of the table.

`python3 tests/extras/run.py base libp2p` runs two of them and writes no table.
"""

import platform
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "results" / "extras.md"
BENCHMARKS = "tests/lab/benchmarks/test_benchmarks.py"
LANES = {
    "base": ["tests/extras/base.py", "tests/protocol"],
    "gym": ["tests/core/environments/test_reasoning_gym.py", "tests/lab/test_starters.py"],
    "libp2p": [
        f"tests/network/test_{name}.py" for name in ("backends", "multiaddr", "relays", "start")
    ],
    "memory": ["tests/core/training/test_optimisers.py", "tests/core/training/test_four_bits.py"],
    "docs": ["tests/house/test_site.py"],
    "card": ["tests/core/node/test_card_use.py"],
    "data": ["tests/core/environments/test_dataset.py"],
    "math": ["tests/core/environments/test_dataset.py"],
    "verifiers": ["tests/core/environments/test_taskset.py"],
    "gguf": ["tests/core/hub/test_gguf.py"],
    "trackio": ["tests/core/telemetry/test_trackers.py"],
    "ray": ["tests/core/simulation/test_ray.py"],
    "trl": [
        "tests/core/integrations/test_trl.py",
        f"{BENCHMARKS}::test_last_line_holds_the_ratio_and_both_sides",
    ],
    "dev": [
        "tests/core/policy/test_fp8_triton.py",
        "tests/core/training/test_trainer_beside_trl.py",
    ],
    "vllm": ["tests/extras/real_vllm.py"],
}
HEAD = """# Every extra in an environment of its own

Does each extra of the package work without the others? The table says so: each of its rows is one
environment, and counts the tests that passed, were skipped or failed in it.

`make test-extras` installs each extra of `pyproject.toml` by itself, and none, and runs the tests
that belong to it. A test is skipped where it needs something that is not part of this extra.
"""


def run(lane: str) -> tuple[bool, str]:
    sys.stdout.write(f"--- {lane}\n")
    sys.stdout.flush()
    command = [
        ROOT / ".venvs" / lane / "bin" / "python",
        "-m",
        "pytest",
        "-rs",
        "-p",
        "no:cacheprovider",
        *LANES[lane],
    ]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    sys.stdout.write(done.stdout)
    last = re.findall(
        r"\d+ (?:passed|failed|skipped|errors?)", done.stdout.strip().splitlines()[-1]
    )
    return done.returncode == 0, f"| {lane} | {', '.join(last)} |"


def main(wanted: list[str]) -> int:
    results = [run(lane) for lane in wanted or LANES]
    table = ["| extra | result |", "|---|---|", *(row for _, row in results)]
    commit = subprocess.check_output(
        ["git", "show", "-s", "--format=%h, %cs"], cwd=ROOT, text=True
    ).strip()
    where = (
        f"Source: `make test-extras`, commit {commit}, with Python {platform.python_version()} on "
        f"{platform.system()} ({platform.machine()})."
    )
    if not wanted:
        TABLE.write_text("\n".join([HEAD, *table, "", where, ""]), encoding="utf-8")
    sys.stdout.write("\n".join([*table, ""]))
    return 0 if all(good for good, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
