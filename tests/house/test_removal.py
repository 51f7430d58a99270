"""The core runs without extensions. `tests.house.removal` runs all of its tests without them, and
without each.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.removal import Copy, copied, extensions, run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bare() -> Iterator[Copy]:
    """The tree without any extension."""
    assert len(extensions()) > 10
    with copied(extensions()) as copy:
        yield copy


def test_each_module_of_the_core_can_be_imported(bare: Copy) -> None:
    assert bare.import_all() == ""


def test_a_node_does_a_round(bare: Copy, tmp_path: Path) -> None:
    words = ("--home", str(tmp_path), "--max-rounds", "1", "--network.no-enabled")
    done = bare.start("-P", "-m", "swarm_node.commands.cli", "run", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "round 0" in done.stdout and "stopped after 1 rounds" in done.stdout


def test_the_tests_of_rounds_and_of_what_passes_between_them_pass(bare: Copy) -> None:
    result = run(
        bare, ["-n0", "--tb=short", "tests/core/rollouts", "tests/core/node", "-m", "not slow"]
    )
    passed = re.search(r"(\d+) passed", result.stdout)
    assert result.returncode == 0 and passed and int(passed[1]) > 50, result.stdout + result.stderr
