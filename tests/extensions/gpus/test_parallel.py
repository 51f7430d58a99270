"""A node of two ranks on two CPU processes: the update of one process, checkpoints of one process, and a clean end."""

import os
import shutil
import signal
import subprocess
import uuid
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from lab.studies.guests import reports
from swarm_node.extensions.gpus.ranks import JoinedRanks
from swarm_node.training.checkpoint import all_checkpoints
from swarm_node.training.optimisers import state_tensors
from tests import preloaded
from tests.commands import ENDS_SECONDS
from tests.waiting import until

FLAGS = ["--model.name", "dense", "--threads", "1", "--network.no-enabled", "--round.questions", "4"]
FLAGS += ["--checkpoint.every", "1", "--training.num-iterations", "2"]
NODE = ["-m", "tests.extensions.gpus.keeping_all", "run", *FLAGS, "--home"]


def steps(home: Path) -> dict[int, dict[str, float]]:
    """Figures of each round that should not depend on the number of ranks."""
    names = ("loss", "grad_norm", "trained_tokens", "entropy", "mismatch_kl", "ratio_mean")
    found = {report["round"]: {"reward": report["reward"], **report["step"]} for report in reports(home)}
    return {now: {k: step[k] for k in ("reward", *names) if step[k] is not None} for now, step in found.items()}


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
    found = []
    for process in marked(mark):
        with suppress(psutil.Error):  # a child of the scoring process that has just ended
            if process.environ().get("RANK") == str(number) and process.ppid() == launcher(process):
                found.append(process)
    (only,) = found
    return only


def launcher(process: psutil.Process) -> int:
    """Its parent, where that is torchrun and not a rank."""
    parent = process.parent()
    return parent.pid if parent is not None and "RANK" not in parent.environ() else -1


def taken_over(home: Path, rounds: int, to: Path) -> Path:
    """A new home that goes on as this one did after so many rounds."""
    to.mkdir()
    shutil.copy(home / "identity.key", to)
    name = f"{rounds:08d}"
    shutil.copytree(home / "checkpoints" / name, to / "checkpoints" / name)
    return to


def difference(one: Path, other: Path, rounds: int) -> float:
    """The largest of a weight after so many rounds."""
    file = Path("checkpoints", f"{rounds:08d}", "model.safetensors")
    left, right = load_file(one / file), load_file(other / file)
    return max(float((left[name] - right[name]).abs().max()) for name in left)


def run(home: Path, rounds: str) -> subprocess.CompletedProcess[str]:
    """One process, to its end."""
    command = [*preloaded.python(), *NODE, home, "--max-rounds", rounds]
    return subprocess.run(command, capture_output=True, text=True, timeout=ENDS_SECONDS)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of one process, after two rounds."""
    home = tmp_path_factory.mktemp("alone") / "one"
    begun = run(home, "2")
    assert begun.returncode == 0, begun.stdout + begun.stderr
    return home


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--gpus.shard-optimizer",)], ids=["whole", "sharded"])
def test_two_ranks_go_on_for_one_process_and_it_for_them_and_ranks_end_together(tmp_path, alone, options):
    mark = uuid.uuid4().hex
    home = taken_over(alone, 1, tmp_path / "two")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    node = subprocess.Popen(
        [*preloaded.python(), *torchrun, *NODE, str(home), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "SWARM_NODE_TEST_MARK": mark},
    )
    try:
        until(lambda: 3 in steps(home), 600, "a fourth round")
        rank(mark, 1).send_signal(signal.SIGKILL)
        output, _ = node.communicate(timeout=ENDS_SECONDS)
    finally:
        node.kill()
    assert node.returncode != 0 and "resumed after 1 rounds" in output
    until(lambda: not marked(mark), what="the end of every process")

    back = taken_over(home, 2, tmp_path / "back")
    resumed = run(back, "3")
    assert "resumed after 2 rounds" in resumed.stdout, resumed.stdout + resumed.stderr
    for other, number in ((alone, 1), (back, 2)):
        assert steps(other)[number] == pytest.approx(steps(home)[number], rel=1e-4, abs=1e-6)
    assert difference(alone, home, 2) < 1e-5 and difference(back, home, 3) < 1e-5
    shutil.copytree(home / "checkpoints" / "00000002", tmp_path / "before" / "checkpoints" / "00000003")
    assert difference(tmp_path / "before", home, 3) > 1e-4
    assert len(all_checkpoints(home / "checkpoints")) > 1


def test_ranks_keep_the_state_of_about_as_much_each_and_together_of_all():
    weights = [torch.nn.Parameter(torch.ones(size)) for size in (90, 10, 40, 50, 30, 20)]
    shares = [JoinedRanks(number, 3, sharded=True).kept(weights) for number in range(3)]
    assert [sum(map(torch.numel, kept)) for kept in shares] == [90, 80, 70]
    assert sorted(id(p) for kept in shares for p in kept) == sorted(map(id, weights))
    for kept in shares:
        optimizer = torch.optim.AdamW(kept)
        for p in kept:
            p.grad = torch.ones_like(p)
        optimizer.step()
        size = sum(tensor.nbytes for tensor in state_tensors(optimizer, weights).values())
        assert size == 8 * sum(map(torch.numel, kept)) + 4 * len(kept)
    assert len(JoinedRanks(1, 3).kept(weights)) == 6
    assert len(JoinedRanks(1, 3, sharded=True).kept(weights[:2])) == 2


def test_rows_are_dealt_so_that_ranks_have_about_as_much_to_do():
    costs = [90, 10, 40, 50, 30, 20]
    shares = [JoinedRanks(number, 3).dealt(costs) for number in range(3)]
    assert sorted(index for share in shares for index in share) == list(range(6))
    assert [sum(costs[i] for i in share) for share in shares] == [90, 80, 70]
    assert [JoinedRanks(number, 3).dealt([5.0]) for number in range(3)] == [[0], [], []]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8])
def test_prompts_are_shared_in_their_order(count):
    shares = [JoinedRanks(number, 3).share(count) for number in range(3)]
    assert [index for share in shares for index in share] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
