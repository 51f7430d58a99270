"""A swarm of two versions: a node of commit 861d7f36 and one of the tree share on loopback.

The earlier node runs the code of its commit, which `git archive` takes out of the repository, in an
environment of its own.
"""

import json
import os
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.benchmarks.earlier import Earlier
from lab.studies.guests import reports, trained_on
from swarm_node.environments.reasoning_gym.catalogue import VERSION
from swarm_node.home.folder import load_identity
from tests import earlier
from tests.commands import started
from tests.earlier import DATA, SHORT
from tests.waiting import PATIENCE, until

pytestmark = [
    pytest.mark.network,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not earlier.is_here(),
        reason=f"commit {SHORT} is not here: this is no clone of the repository",
    ),
]
GYM = "0.1.25-2"  # version of reasoning_gym's questions at 861d7f36
LEARNS_SECONDS = 400.0  # half a minute where nothing else runs
FEW = (
    *("--model.name", "rare_small", "--threads", "1", "--round.local-groups", "2"),
    *("--round.external-groups", "2", "--network.exchange-seconds", "2"),
)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Earlier:
    """The programs of 861d7f36."""
    return earlier.unpacked(tmp_path_factory.mktemp(SHORT))


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of questions, whose digest is the version of its environment."""
    with tarfile.open(DATA / "own_data.tar.xz") as archive:
        folder = tmp_path_factory.mktemp("questions")
        archive.extract("own_data/questions.csv", folder, filter="data")
    return folder / "own_data" / "questions.csv"


@contextmanager
def of_two_versions(
    earlier_code: Earlier, folder: Path, *flags: object
) -> Iterator[tuple[Path, Path]]:
    """The homes of two running nodes that know each other: of 861d7f36, and of the tree."""
    old, new = folder / "old", folder / "new"
    swarm = ("--swarm", folder.name.replace("_", "-"), *FEW, *flags)
    with ended_in_the_end(old, earlier_code.command("run", "--home", old, *swarm)):
        addresses = old / "addresses"
        until(lambda: addresses.exists() and "/tcp/" in addresses.read_text(), what="an address")
        peers = [line for line in addresses.read_text().splitlines() if "/tcp/" in line]
        with ended_in_the_end(new, ["run", "--home", new, *swarm, "--peers", *peers], tree=True):
            yield old, new


@contextmanager
def ended_in_the_end(home: Path, line: Sequence[object], tree: bool = False) -> Iterator[None]:
    """A running node, which is told to stop in the end, and does so by itself."""
    with home.with_suffix(".log").open("wb") as output:
        streams = {"stdout": output, "stderr": subprocess.STDOUT}
        if tree:
            node = started(*line, loaded=True, **streams)
        else:
            node = subprocess.Popen([*map(str, line)], text=True, env=dict(os.environ), **streams)
    try:
        yield
        assert node.poll() is None, home.with_suffix(".log").read_text()
    finally:
        node.terminate()
        try:
            node.wait(PATIENCE)
        finally:
            node.kill()
            node.wait()
    assert node.returncode == 0, home.with_suffix(".log").read_text()


def train_on_each_other(old: Path, new: Path) -> None:
    """Waits until each of two nodes has trained on groups of the other."""
    peers = {home: load_identity(home).peer_id for home in (old, new) if wait_for_key(home)}
    both = {old: peers[new], new: peers[old]}
    until(
        lambda: all(peer in trained_on(home) for home, peer in both.items()),
        LEARNS_SECONDS,
        "training on groups of each other",
    )


def refuse_each_other(homes: Sequence[Path]) -> None:
    """Waits until each of two nodes has refused groups of the other, and has gone on training."""
    until(lambda: all(map(refused, homes)), LEARNS_SECONDS, "groups refused on both sides")
    counts = [len(reports(home)) for home in homes]
    until(
        lambda: all(
            len(reports(home)) > count + 3 for home, count in zip(homes, counts, strict=True)
        ),
        what="training on",
    )
    assert not any(map(trained_on, homes))


def wait_for_key(home: Path) -> bool:
    """Returns when the node has made its identity."""
    until((home / "identity.key").exists, what="an identity")
    return True


def refused(home: Path) -> int:
    """How many external groups a node has refused for their questions."""
    return sum(report["rejected"].get("unknown question", 0) for report in reports(home))


def test_the_earlier_node_runs_the_code_and_the_plug_ins_of_its_commit(
    before: Earlier, tmp_path: Path
) -> None:
    program = (
        "import json, sys, swarm_node, protocol\n"
        "from importlib.metadata import entry_points\n"
        "plugged = [each.value for each in entry_points(group='swarm_node.environments')]\n"
        "print(json.dumps([swarm_node.__file__, protocol.__file__, sorted(plugged)]))"
    )
    line = [before.python, "-s", "-P", "-c", program]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True)
    *files, plugged = json.loads(done.stdout)
    assert all(Path(file).is_relative_to(before.python.parents[2] / "code") for file in files)
    assert len(plugged) == 8 and "swarm_node.extensions.basics.environment:KIND" in plugged


def test_nodes_of_both_versions_train_on_each_other_s_groups_of_a_plug_in(
    before: Earlier, tmp_path: Path
) -> None:
    """Its user gave it a version, which no release of ours raises."""
    flags = ("--environment.use", f"{DATA / 'user' / 'my_task'}:WordReversal")
    flags = (*flags, "--environment.tasks", "words/short", "--environment.scoring", "graded")
    with of_two_versions(before, tmp_path, *flags) as (old, new):
        train_on_each_other(old, new)


def test_nodes_of_both_versions_say_why_they_share_no_file_of_questions_and_go_on(
    before: Earlier, questions: Path, tmp_path: Path
) -> None:
    """What is paid for an answer has changed since, and is part of the version of a data set."""
    with of_two_versions(before, tmp_path, "--dataset.file", questions) as homes:
        refuse_each_other(homes)


def test_nodes_of_both_versions_share_questions_of_reasoning_gym_or_say_why_not_and_go_on(
    before: Earlier, tmp_path: Path
) -> None:
    """Where the version of these questions was raised, nobody trains on the other's groups: each
    node counts them as refused, and goes on.
    """
    with of_two_versions(before, tmp_path, "--environment.tasks", "gcd/tiny,lcm/tiny") as homes:
        if VERSION == GYM:
            train_on_each_other(*homes)
            return
        refuse_each_other(homes)
