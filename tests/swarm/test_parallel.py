"""A node of two ranks on two CPU processes: the update of one process, checkpoints of one process, and a clean end."""

import os
import shutil
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from swarm_node.common.torchrun import follows, is_rank
from swarm_node.compute.ranks import ALONE, Ranks
from swarm_node.compute.training.checkpoint import all_checkpoints
from swarm_node.telemetry.jsonlines import read_jsonlines
from tests.commands import ended
from tests.waiting import until

FLAGS = ["--model.name", "dense", "--threads", "1", "--network.no-enabled", "--round.questions", "4"]
FLAGS += ["--checkpoint.every", "2", "--checkpoint.keep", "99", "--checkpoint.optimizer", "all"]
FLAGS += ["--training.num-iterations", "2"]


def steps(home: Path) -> dict[int, dict[str, float]]:
    """Figures of each round that should not depend on the number of ranks."""
    names = ("loss", "grad_norm", "trained_tokens", "entropy", "mismatch_kl", "ratio_mean")
    if not (home / "events.jsonl").exists():
        return {}
    reports = [event["report"] for event in read_jsonlines(home / "events.jsonl") if event["event"] == "RoundDone"]
    return {
        report["round"]: {"reward": report["reward"], **{name: report["step"][name] for name in names}}
        for report in reports
    }


def marked(mark: str) -> list[psutil.Process]:
    """All processes that were started, directly or not, with this mark in the environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("SWARM_NODE_TEST_MARK") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def rank(mark: str, number: int) -> psutil.Process:
    (found,) = (p for p in marked(mark) if p.environ().get("RANK") == str(number) and p.ppid() == launcher(p))
    return found


def launcher(process: psutil.Process) -> int:
    """Its parent, where that is torchrun and not a rank."""
    parent = process.parent()
    return parent.pid if parent is not None and "RANK" not in parent.environ() else -1


@pytest.mark.slow
def test_two_ranks_train_as_one_process_and_end_together(tmp_path):
    home, alone, mark = tmp_path / "two", tmp_path / "one", uuid.uuid4().hex
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    node = subprocess.Popen(
        [*torchrun, "-m", "swarm_node", "run", "--home", str(home), *FLAGS],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "SWARM_NODE_TEST_MARK": mark},
    )
    try:
        until(lambda: len(steps(home)) > 5, 120, "a sixth round")
        rank(mark, 1).send_signal(signal.SIGKILL)
        output, _ = node.communicate(timeout=60)
    finally:
        node.kill()
    assert node.returncode != 0
    assert "a rank of this node has ended" in output or "stopped after" in output, output
    until(lambda: not marked(mark), 20, "the end of every process")

    alone.mkdir()
    shutil.copy(home / "identity.key", alone)
    shutil.copytree(home / "checkpoints" / "00000002", alone / "checkpoints" / "00000002")
    resumed = ended("run", "--home", alone, *FLAGS, "--max-rounds", "4")
    assert "resumed after 2 rounds" in resumed.stdout, resumed.stdout + resumed.stderr
    for number in (2, 3):
        assert steps(alone)[number] == pytest.approx(steps(home)[number], rel=1e-4, abs=1e-6)
    left, right = (load_file(folder / "checkpoints" / "00000004" / "model.safetensors") for folder in (home, alone))
    before = load_file(home / "checkpoints" / "00000002" / "model.safetensors")
    assert max(float((left[name] - right[name]).abs().max()) for name in left) < 1e-5
    assert max(float((left[name] - before[name]).abs().max()) for name in left) > 1e-4
    assert len(all_checkpoints(home / "checkpoints")) > 1


def test_rows_are_dealt_so_that_ranks_have_about_as_much_to_do():
    costs = [90, 10, 40, 50, 30, 20]
    shares = [Ranks(number, 3).dealt(costs) for number in range(3)]
    assert sorted(index for share in shares for index in share) == list(range(6))
    assert [sum(costs[i] for i in share) for share in shares] == [90, 80, 70]
    assert ALONE.dealt(costs) == list(range(6))
    assert [Ranks(number, 3).dealt([5.0]) for number in range(3)] == [[0], [], []]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8])
def test_prompts_are_shared_in_their_order(count):
    shares = [Ranks(number, 3).share(count) for number in range(3)]
    assert [index for share in shares for index in share] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_only_torchrun_makes_ranks():
    started = {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2", "RANK": "1"}
    assert is_rank(started) and follows(started)
    assert not follows({**started, "RANK": "0"})
    assert not is_rank({**started, "WORLD_SIZE": "1"})
    assert not is_rank({"RANK": "1", "WORLD_SIZE": "2"})  # of another program's


def test_alone_nothing_is_sent():
    weights = [torch.nn.Parameter(torch.ones(2))]
    ALONE.add_gradients(weights)
    ALONE.tell("nobody")
    assert weights[0].grad is None and ALONE.gather(3) == [3]
