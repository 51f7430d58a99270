"""One node as a real process: killed, resumed, starved of disk."""

import json
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab.studies.guests import reports
from swarm_node.node.stopping import LEAVING_SECONDS
from swarm_node.training.checkpoint import all_checkpoints
from tests.commands import ENDS_SECONDS, read_until, started
from tests.waiting import until


def start(home: Path, *flags: str, **how: Any) -> "subprocess.Popen[str]":
    """Starts a node in a process with torch loaded already, unless `how` says something else."""
    usual = {
        "--model.name": "dense",
        "--threads": "1",
        "--checkpoint.every": "3",
        "--round.questions": "4",
        "--training.num-iterations": "2",
    }
    options = [word for key, value in usual.items() if key not in flags for word in (key, value)]
    return started("run", "--home", home, *options, *flags, **{"loaded": True, **how})


def ended(home: Path, *flags: str, **how: Any) -> tuple[int, str]:
    """The exit code and the output of a node that runs to its end."""
    node = start(home, *flags, **how)
    output, _ = node.communicate(timeout=ENDS_SECONDS)
    return node.returncode, output


def curve(home: Path) -> dict[int, tuple[float, ...]]:
    """The report of each round. If a round was run again after a kill, the last report counts."""
    rounds = {}
    for report in reports(home):
        step = report["step"]
        rounds[report["round"]] = (
            report["reward"],
            step["loss"],
            step["grad_norm"],
            report["generated_tokens"],
        )
    return rounds


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of seven rounds without a disturbance. Tests only read it."""
    home = tmp_path_factory.mktemp("whole") / "home"
    code, output = ended(home, "--max-rounds", "7")
    assert code == 0, output
    return home


@pytest.mark.slow
def test_a_killed_node_resumes_to_the_same_curve_bit_for_bit(whole, tmp_path):
    home = tmp_path / "killed"
    os.makedirs(home)
    (home / "identity.key").write_bytes((whole / "identity.key").read_bytes())
    (home / "identity.key").chmod(0o600)
    killed = start(home, "--max-rounds", "7")
    read_until(killed, "round 3 ")
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=ENDS_SECONDS)
    kept = int(all_checkpoints(home / "checkpoints")[-1].name)
    assert kept in (1, 3, 6), "it goes on until the signal comes, and must not have ended"
    assert f"resumed after {kept} rounds" in ended(home, "--max-rounds", "7")[1] and curve(
        home
    ) == curve(whole)
    last = [
        all_checkpoints(folder / "checkpoints")[-1] / "model.safetensors"
        for folder in (home, whole)
    ]
    assert last[0].read_bytes() == last[1].read_bytes()


@pytest.mark.slow
def test_a_full_disk_costs_a_checkpoint_and_nothing_else(whole, tmp_path):
    home = tmp_path / "home"
    shutil.copytree(whole, home, ignore=shutil.ignore_patterns("*.sock"))
    kept = sorted(path.name for path in (home / "checkpoints").iterdir())
    assert kept[-1] == "00000007"

    def no_file_over_a_megabyte() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    code, output = ended(
        home, "--max-rounds", "10", loaded=False, preexec_fn=no_file_over_a_megabyte
    )
    assert code == 75, output
    assert "warning: no checkpoint could be written after 9 rounds" in output
    assert "the last checkpoint could not be written" in output and "Traceback" not in output
    assert (
        max(curve(home)) == 9
        and sorted(path.name for path in (home / "checkpoints").iterdir()) == kept
    )


@pytest.mark.slow
def test_a_home_belongs_to_one_node_at_a_time_and_sigterm_ends_its_round_and_saves(tmp_path):
    first = start(tmp_path)
    read_until(first, "round 0 ")
    code, output = ended(tmp_path, "--max-rounds", "1")
    assert code == 75 and "another node runs in" in output
    read_until(first, "round 1 ")
    first.send_signal(signal.SIGTERM)
    output, _ = first.communicate(timeout=ENDS_SECONDS)
    assert first.returncode == 0
    done = int(all_checkpoints(tmp_path / "checkpoints")[-1].name)
    assert f"stopped after {done} rounds" in output
    state = json.loads((all_checkpoints(tmp_path / "checkpoints")[-1] / "state.json").read_text())
    assert state["rounds"] == done == max(curve(tmp_path)) + 1


# An objective whose third update waits in its gradient until the process ends
SLOW = """
from pathlib import Path
import time

from swarm_node.training.objectives import decoupled

here = Path(__file__).parent

def slow(terms, bounds):
    if (here / "wait").exists():
        (here / "waits").touch()
        while True:
            time.sleep(0.01)
    return decoupled(terms, bounds)
"""


@pytest.mark.slow
@pytest.mark.parametrize("iterations", [1, 2])
def test_sigterm_in_a_long_update_loses_no_round_before_it(whole, tmp_path, iterations):
    (tmp_path / "slow.py").write_text(SLOW)
    home, flags = tmp_path / "home", ("--training.objective", f"{tmp_path / 'slow'}:slow")
    flags = (*flags, "--training.num-iterations", str(iterations), "--checkpoint.every", "0")
    os.makedirs(home)
    (home / "identity.key").write_bytes((whole / "identity.key").read_bytes())
    (home / "identity.key").chmod(0o600)
    node = start(home, *flags, "--limits.stop-seconds", str(LEAVING_SECONDS + 1.0))
    read_until(node, "round 2 ")
    (tmp_path / "wait").touch()
    until((tmp_path / "waits").exists)
    node.send_signal(signal.SIGTERM)
    output, _ = node.communicate(timeout=ENDS_SECONDS)
    assert node.returncode == 0, output
    done = max(curve(home)) + 1
    assert done >= 3 and int(all_checkpoints(home / "checkpoints")[-1].name) == done
    (tmp_path / "wait").unlink()
    code, output = ended(home, *flags, "--max-rounds", "7")
    assert code == 0 and f"resumed after {done} rounds" in output
    if iterations == 2:  # as in `whole`: the round that was given up is done again, exactly
        assert curve(home) == curve(whole)


@pytest.mark.slow
@pytest.mark.parametrize("rate", ["1", "1e9"])
def test_a_rate_that_would_wreck_the_model_ends_the_node_in_one_line(tmp_path, rate):
    code, output = ended(tmp_path, "--training.learning-rate", rate, "--max-rounds", "30")
    assert code == 75 and "Traceback" not in output
    assert "would change the weights by" in output
