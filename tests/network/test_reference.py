"""What docs/reference says of a running node, and of the files that it leaves, compared with a real
node.
"""

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from swarm_node.telemetry.jsonlines import read_jsonlines
from tests.commands import ended, started
from tests.network.test_nodes import healthy
from tests.pages import rows
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.network
ARGUMENTS = (
    *(
        "--round.questions",
        2,
        "--environment.tasks",
        "gcd/tiny",
        "--threads",
        1,
        "--observers",
        "samples",
    ),
    *("--checkpoint.every", 5, "--validation.every", 5, "--validation.questions", 4),
)
# Files of an asynchronous node, of one with a vLLM server, of a long run, of a node that has a
# page, of one that a program started, and of a swarm with a card.
ONLY_SOMETIMES = {
    "access.toml", "options.toml", "paused", "events.1.jsonl", "generator.log", "workers.log",
    "vllm", "rollouts.old.jsonl", "page.token", "validate", "output.log", "swarm.manifest",
    "trackio",
}  # fmt: skip


@dataclass
class Seen:
    home: Path
    status: dict[str, Any]
    files: set[str]  # in the home, while the node ran and after


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    home = tmp_path_factory.mktemp("node") / "home"
    process = started("run", "--home", home, *ARGUMENTS, loaded=True)
    try:
        until(
            lambda: (home / "best").exists() and (home / "checkpoints").exists(),
            what="two kinds of checkpoints",
        )
        status = healthy(home)
        files = {path.name for path in home.iterdir()}
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    finally:
        process.kill()
    yield Seen(home, status, files | {path.name for path in home.iterdir()})


def test_status_answers_with_the_keys_of_its_page(seen: Seen) -> None:
    where_reachable = {"invitation", "advice"}
    assert seen.status.keys() | where_reachable == rows("status.md", "The object").keys()
    # There once a round has ended, or if set
    guest = {"limits", "traffic_megabytes", "resting", "at_once", "chooses", "chosen"}
    assert seen.status["training"].keys() - guest == rows("status.md", "training").keys() - guest
    # Not of a node
    assert seen.status["network"].keys() == rows("status.md", "network").keys() - {"sampled_tasks"}


def test_without_a_node_it_answers_as_the_page_says(tmp_path: Path) -> None:
    status = ended("status", "--home", tmp_path, "--json")
    assert json.loads(status.stdout).keys() == {"healthy", "problems"} and status.returncode == 1


def test_the_files_of_a_home_are_those_of_the_page(seen: Seen) -> None:
    written = {name for name in seen.files if not name.startswith(".")}
    assert written == rows("home.md", "The home of a node").keys() - ONLY_SOMETIMES
    manifest = json.loads((seen.home / "manifest.json").read_text())
    assert manifest.keys() == rows("home.md", "manifest.json").keys()


def test_a_checkpoint_holds_what_its_page_says(seen: Seen) -> None:
    (best,) = (seen.home / "best").iterdir()
    last = max((seen.home / "checkpoints").iterdir())
    states = [json.loads((folder / "state.json").read_text()) for folder in (best, last)]
    for folder, state in zip((best, last), states, strict=True):
        # In the newest of `checkpoints` alone
        kept = {"optimizer.safetensors"} if folder == last else set()
        held = {path.name for path in folder.iterdir()}
        assert (
            held | {"optimizer.safetensors"} == rows("checkpoints.md", "Files").keys()
            and kept <= held
        )
        assert state.keys() == rows("checkpoints.md", "state.json").keys()
    extra = rows("checkpoints.md", "extra").keys()
    assert states[1]["extra"].keys() == extra - {"validation_reward"}
    assert states[0]["extra"].keys() == {"peer_id", "model", "validation_reward"} <= extra
    assert states[1]["extra"]["pool"].keys() == {"waiting", "spent", "answered"}


def test_events_have_the_keys_of_their_page(seen: Seen) -> None:
    events = {event["event"]: event for event in read_jsonlines(seen.home / "events.jsonl")}
    assert events.keys() >= {
        "RunStarted",
        "RoundDone",
        "CheckpointSaved",
        "Validated",
        "RunFinished",
    }
    for name, event in events.items():
        assert event.keys() - {"time", "event"} == rows("events.md", name).keys()
