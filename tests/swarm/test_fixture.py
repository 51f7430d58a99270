"""What a user of commit 861d7f36 has: homes, a backup, cards, codes, plug-ins and a script, all
made with its code (tests/data/861d7f36/README.md). The tree loads each of them, or says in one line
which version made it and what to do.

TABLE says which of the two is the case. A change that ends support for something replaces `LOADS`
in its row by words of the line that its users then read.
"""

import json
import os
import shutil
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess, run
from typing import Any

import pytest

from protocol import card as cards
from protocol.card import Card, Refusal, digest, network_id
from protocol.identity import Identity
from protocol.member import judge
from swarm_node.environments.basics.source import version as basics_version
from swarm_node.environments.reasoning_gym.catalogue import VERSION
from swarm_node.network.process.keeper import CARDS_FILE, load_cards
from swarm_node.swarm.code import decode
from tests import preloaded
from tests.commands import ENDS_SECONDS, ended
from tests.earlier import DATA, SHORT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

GYM = "0.1.25-2"  # version of reasoning_gym's questions at 861d7f36
PRESENT = {("reasoning_gym", VERSION), ("basics", basics_version)}  # of this tree
MORE = 2  # rounds
ALONE = "--network.no-enabled"
FEW = ("--round.questions", "4", "--round.local-groups", "2", "--generation.num-generations", "4")
STARTER = ("--model.name", "rare_small")
LOADS = ""
SAME_GYM = VERSION == GYM


@dataclass(frozen=True)
class Home:
    """A home of the fixture, and the flags by which its user starts commands."""

    name: str  # of the archive, and of the folder in it
    rounds: int  # done when it was made
    model: tuple[str, ...] = (*STARTER, "--model.lora-rank", "1")
    flags: tuple[str, ...] = ()  # of `run`, besides
    asks: tuple[str, ...] = ()  # of `model eval`
    inside: str = ""  # the home below the folder, where the user stands in the folder

    @property
    def file(self) -> Path:
        return DATA / f"{self.name}.tar.xz"


SMALL = "first/few,second/few"
HELD_OUT = ("--validation.every", "2", "--validation.questions", "4")
HOMES = {
    home.name: home
    for home in (
        # In a swarm of two: external groups are in its checkpoint, and it knows a peer
        Home("starter", 300, STARTER, ("--swarm", "fixture")),
        Home(
            "smollm2",
            2,
            ("--model.name", "smollm2-135m", "--model.lora-rank", "1"),
            (*FEW, "--environment.tasks", SMALL, *HELD_OUT),
            ("--tasks", SMALL),
        ),
        Home(
            "own_data",
            12,
            flags=("node.toml",),
            asks=("--dataset.file", "questions.csv", "--dataset.held-out", "0.2"),
            inside="home",
        ),
        # It follows a card
        Home("member", 13, flags=FEW, asks=("--tasks", SMALL)),
    )
}
COMMANDS = ("check", "doctor", "status", "ask", "eval", "export", "id", "restore", "run")
TABLE = {
    **{(name, command): LOADS for name in HOMES for command in COMMANDS},
    ("own_data.backup", "restore"): LOADS,
    ("friends.card", "run"): LOADS,
    # Where the version of these questions was raised, it sends none of its groups, and says so
    ("gym.card", "run"): LOADS,
    ("open.code", "join"): LOADS if SAME_GYM else f"and {GYM} there",
    ("node.toml", "run"): LOADS,
    ("node.toml", "check"): LOADS,
    ("my_episode.py", "run"): LOADS,
    ("my_sampler.py", "simulate"): LOADS,
    ("watch.py", "new home"): LOADS,
    ("watch.py", "starter"): LOADS,
}


def variables() -> dict[str, str]:
    """The environment of a user. The suite names a model, which would win over a file's."""
    return {name: text for name, text in os.environ.items() if name != "SWARM_NODE_MODEL__NAME"}


def held(row: tuple[str, str], done: "CompletedProcess[str]", code: int = 0) -> bool:
    """Asserts that a command did what TABLE says. Whether it loaded what 861d7f36 had made.

    `code`: with which it ends if it did.
    """
    words = TABLE[row]
    if not words:
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return True
    assert done.returncode == 2, done.stdout + done.stderr
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("swarm-node: ") and words in line, line
    assert any(version in line for version in (SHORT, "0.1.0", GYM)), line
    return False


def unpacked(home: Home, folder: Path) -> Path:
    """The folder of the archive, below another."""
    with tarfile.open(home.file) as archive:
        # With the modes of its files, and as files of whoever runs this
        archive.extractall(folder, filter="fully_trusted", numeric_owner=True)
    return folder / home.name


class User:
    """Starts commands for one home, in the folder where its user stands."""

    def __init__(self, home: Home, folder: Path) -> None:
        place = unpacked(home, folder)
        self.folder = place if home.inside else folder
        self.home = Path(home.inside or home.name)
        self.flags = home.flags if home.inside else (*home.model, *home.flags)

    def __call__(self, *words: object) -> "CompletedProcess[str]":
        return ended(*words, cwd=self.folder, env=variables())

    def node(self, command: str, *more: object) -> "CompletedProcess[str]":
        """A command that takes the flags of run."""
        return self(command, *self.flags, "--home", self.home, *more)

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = (self.folder / self.home / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == name]


@pytest.fixture(params=HOMES)
def user(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, User]:
    return request.param, User(HOMES[request.param], tmp_path)


def test_a_home_of_it_is_looked_at_and_measured_asked_and_exported(
    user: tuple[str, User], tmp_path: Path
) -> None:
    name, start = user
    home = HOMES[name]
    peer = str(start.events("RunStarted")[0]["title"]).removeprefix("node ")
    checked = start.node("check")
    if held((name, "check"), checked):
        assert "tasks: " in checked.stdout
    looked = start.node("doctor", ALONE)
    if held((name, "doctor"), looked, code=1):
        assert "this node can train" in looked.stdout, looked.stdout
    status = start("status", "--home", start.home, "--json")
    if held((name, "status"), status, code=1):
        assert "no node runs in" in json.loads(status.stdout)["problems"][0]
    told = start("home", "id", "--home", start.home)
    if held((name, "id"), told):
        assert peer in told.stdout
    asked = start("ask", "Say something", "--home", start.home, *home.model)
    if held((name, "ask"), asked):
        assert f"after {home.rounds} rounds" in asked.stdout, asked.stdout
    measured = start("model", "eval", start.home, "--questions", "1", "--json", *home.asks)
    if held((name, "eval"), measured):
        assert json.loads(measured.stdout)["all"]["questions"] >= 1
    exported = start("model", "export", tmp_path / "out", "--home", start.home)
    if held((name, "export"), exported):
        assert (tmp_path / "out" / "README.md").is_file()


def test_a_home_of_it_goes_on_and_so_does_its_copy_from_a_backup(
    user: tuple[str, User], tmp_path: Path
) -> None:
    name, start = user
    home = HOMES[name]
    assert start("home", "backup", tmp_path / "backup", "--home", start.home).returncode == 0
    copy = tmp_path / "copy"
    restored = start("home", "restore", tmp_path / "backup", "--home", copy)
    if held((name, "restore"), restored):
        file = Path("identity.key")
        assert (copy / file).read_bytes() == (start.folder / start.home / file).read_bytes()
    before = [event["report"]["round"] for event in start.events("RoundDone")]
    assert before[-1] == home.rounds - 1
    went_on = start.node("run", ALONE, "--max-rounds", home.rounds + MORE)
    if held((name, "run"), went_on):
        assert f"resumed after {home.rounds} rounds" in went_on.stdout, went_on.stdout
        after = [event["report"]["round"] for event in start.events("RoundDone")]
        assert after == [*before, *range(home.rounds, home.rounds + MORE)]
        newest = start.folder / start.home / "checkpoints" / f"{home.rounds + MORE:08}"
        assert (newest / "optimizer.safetensors").is_file()


def test_a_backup_of_it_is_restored_and_its_copy_goes_on(tmp_path: Path) -> None:
    start = User(HOMES["own_data"], tmp_path)
    rounds = HOMES["own_data"].rounds
    restored = start("home", "restore", DATA / "own_data.backup", "--home", "copy")
    if held(("own_data.backup", "restore"), restored):
        start.home = Path("copy")
        done = start.node("run", "--max-rounds", rounds + 1)
        assert f"resumed after {rounds} rounds" in done.stdout, done.stdout + done.stderr


@pytest.fixture
def signers(tmp_path: Path) -> Path:
    """A folder with the cards and the keys of their signers, each key for its user alone."""
    folder = tmp_path / "card"
    shutil.copytree(DATA / "card", folder)
    for key in folder.glob("*.key"):
        key.chmod(0o600)
    return folder


@pytest.mark.parametrize("name", ["friends.card", "gym.card"])
def test_a_card_of_it_is_shown_and_followed_by_a_new_one_and_both_let_a_node_in(
    name: str, signers: Path
) -> None:
    """By the new one, as a card lives for 400 days at most."""
    bytes_before = (signers / name).read_bytes()
    signed = cards.read(bytes_before.rstrip(b"\n"))
    assert not isinstance(signed, Refusal)
    in_force = cards.follow([bytes_before.rstrip(b"\n")], "", signed.card.issued + cards.DAY)
    assert in_force == signed.card and len(signed.card.signers) == 3

    def say(*words: object) -> "CompletedProcess[str]":
        done = ended("swarm", *words, cwd=signers, env=variables())
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    network = network_id(signed.card)
    shown = say("show", name).stdout
    assert network in shown and all(signer in shown for signer in signed.card.signers)
    say("next", name, "--days", 60)
    for key in ("ann.key", "bob.key"):
        say("sign", name, "--key", key)
    assert "complete, and in force" in say("verify", name, "--network", network).stdout
    flags = (*STARTER, *FEW, "--card", name, "--card-network", network, "--max-rounds", 1)
    done = ended("run", "--home", "home", *flags, cwd=signers, env=variables())
    if held((name, "run"), done):
        assert "round 0 " in done.stdout
        # A card of an earlier version of the questions: one line says which
        asked = {(task.environment, task.version) for task in signed.card.tasks}
        told = [line for line in done.stdout.splitlines() if "the manifest asks for" in line]
        assert len(told) == len(asked - PRESENT), done.stdout
        for (environment, version), line in zip(sorted(asked - PRESENT), told, strict=True):
            assert f"asks for version {version} of {environment}," in line
        chain, last = load_cards(signers / "home" / CARDS_FILE)
        assert chain[0] == bytes_before.rstrip(b"\n") and isinstance(last, Card)
        assert last.number == 2


def test_codes_of_it_are_read_and_the_key_of_one_lets_a_newcomer_into_its_private_swarm() -> None:
    texts = {file.stem: file.read_text().strip() for file in (DATA / "card").glob("*.code")}
    assert sorted(texts) == ["closed", "friends", "open"]
    codes = {name: decode(text) for name, text in texts.items()}
    (asked,) = codes["open"].asked
    assert codes["open"].swarm == "fixture" and asked.version == GYM and len(asked.tasks) == 9
    for name in ("friends", "closed"):
        signed = cards.read((DATA / "card" / f"{name}.card").read_bytes().rstrip(b"\n"))
        assert not isinstance(signed, Refusal)
        assert codes[name].network == network_id(signed.card)
        assert codes[name].digest == digest(signed.card)
    newcomer, now = Identity.create(), signed.card.issued + cards.DAY
    ends = judge(codes["closed"].proves(newcomer), newcomer.peer_id, signed.card, now)
    assert isinstance(ends, int) and ends > now


def test_a_node_joins_by_a_code_of_it_though_nobody_answers_there(tmp_path: Path) -> None:
    code = (DATA / "card" / "open.code").read_text().strip()
    flags = ("--home", tmp_path / "home", *STARTER, *FEW, "--max-rounds", 1)
    joined = ended("join", code, *flags, env=variables())
    if held(("open.code", "join"), joined):
        kept = (tmp_path / "home" / "options.toml").read_text()
        assert "round 0 " in joined.stdout and 'swarm = "fixture"' in kept
        assert decode(code).addresses[0] in kept


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """The files that a user has written, in the folder where that user stands."""
    return Path(shutil.copytree(DATA / "user", tmp_path / "user"))


def test_plug_ins_of_it_train_a_node_and_a_simulation(plugins: Path) -> None:
    def start(*words: object) -> "CompletedProcess[str]":
        return ended(*words, cwd=plugins, env=variables())

    checked = start("check", "node.toml", *STARTER)
    if held(("node.toml", "check"), checked):
        assert "tasks: words/short, words/long" in checked.stdout
    alone = (ALONE, *STARTER)
    trained = start("run", "node.toml", "--home", "home", "--max-rounds", 3, *alone)
    if held(("node.toml", "run"), trained):
        lines = (plugins / "home" / "rewards.txt").read_text().splitlines()
        assert [line.split()[0] for line in lines] == ["0", "1", "2"]
    played = ("--environment.use", "my_episode:HiddenWord", "--max-rounds", 1, *FEW)
    episode = start("run", "--home", "other", *alone, *played)
    if held(("my_episode.py", "run"), episode):
        assert "round 0 " in episode.stdout
    small = ("--nodes", 2, "--arms", "2/2", "--rounds", 3, "--workers", 1, *STARTER, *FEW)
    which = ("--round.sampler", "my_sampler:FreshestSampler", "--defence", "my_layer:NoShouting")
    simulated = start("simulate", *small, *which, "--out", "report")
    if held(("my_sampler.py", "simulate"), simulated):
        assert (plugins / "report" / "report.json").is_file()


@pytest.mark.parametrize("where", ["new home", "starter"])
def test_a_script_of_it_finds_all_that_it_read_before(
    where: str, plugins: Path, tmp_path: Path
) -> None:
    """watch.py reads the output of a node, `--json` of five commands, /metrics, events.jsonl and
    manifest.json. watch.txt is what it printed with 861d7f36.
    """
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "swarm-node").write_text(
        f'#!/bin/sh\nexec {" ".join(preloaded.python())} -m swarm_node.commands.cli "$@"\n'
    )
    (programs / "swarm-node").chmod(0o755)
    swarm: Sequence[str] = ()
    if where == "starter":
        unpacked(HOMES["starter"], plugins)
        swarm = ("--swarm", "fixture")
    checked = ("--validation.every", "5", "--validation.questions", "9")
    done = run(
        [sys.executable, "watch.py", where, *STARTER, *swarm, "--threads", "1", *checked],
        cwd=plugins,
        env={**variables(), "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=ENDS_SECONDS,
        check=False,
    )
    if held(("watch.py", where), done):
        before, now = figures((plugins / "watch.txt").read_text()), figures(done.stdout)
        assert [*now] == [*before]
        assert {name: of_kind(now[name]) for name in now} == {
            name: of_kind(before[name]) for name in before
        }
        same = ("status.role", "status.network.backend", "status.network.reachability", "eval.task")
        assert [now[name] for name in same] == [before[name] for name in same]
        assert now["exit code"] == 0 and now["status.healthy"] is True
        assert set(before["events"]) <= set(now["events"])
        assert set(before["manifest.versions"]) <= set(now["manifest.versions"])


def figures(text: str) -> Mapping[str, object]:
    """What the script printed: values by name."""
    pairs = (line.partition(" = ") for line in text.splitlines())
    return {name: json.loads(value) for name, _, value in pairs}


def of_kind(value: object) -> str:
    """The kind of a JSON value, as a program reads it: null stands in the place of a number."""
    if isinstance(value, bool):
        return "true or false"
    return "number or null" if isinstance(value, int | float | None) else type(value).__name__
