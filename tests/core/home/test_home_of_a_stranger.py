"""A home that somebody else made: links, pipes, sockets and broken files in it do no harm."""

import json
import os
import socket
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from swarm_node.commands import bundle, status
from swarm_node.commands.cli import outcome
from swarm_node.commands.doctor import _disk
from swarm_node.common.errors import UserError
from swarm_node.common.files import MAY_BE_LINKS, check_links, links_in
from swarm_node.home.folder import in_use
from swarm_node.network.process import control
from swarm_node.node.defaults import model_of, resolved
from swarm_node.node.guest import TRAFFIC_FILE, Traffic
from swarm_node.node.rounds import RoundCounter
from swarm_node.page.start import token_of
from swarm_node.policy.soundness import Damaged, check_plain
from swarm_node.settings import NodeConfig
from swarm_node.training.checkpoint import all_checkpoints


def test_doctor_writes_into_no_file_that_a_link_names(tmp_path: Path) -> None:
    """It tried the disk under a name that was always the same, and wrote through a link there."""
    mine = tmp_path / "mine"
    mine.write_text("mine")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".swarm-node-probe").symlink_to(mine)
    assert "GB free" in _disk(home).text and mine.read_text() == "mine"


def test_a_bundle_holds_no_file_that_a_link_names(tmp_path: Path) -> None:
    home, mine = tmp_path / "home", tmp_path / "mine"
    home.mkdir()
    mine.write_text('{"event": "Warned", "text": "my file"}\n')
    for name in ("network.log", "generator.log", "events.jsonl"):
        (home / name).symlink_to(mine)
    bundle.write_bundle(tmp_path / "b.zip", NodeConfig(home=home), None, [])
    with zipfile.ZipFile(tmp_path / "b.zip") as held:
        assert not any(b"my file" in held.read(name) for name in held.namelist())


def test_a_pipe_in_place_of_a_file_holds_nothing_up(tmp_path: Path) -> None:
    for name in ("lock", "network.log", "events.jsonl", TRAFFIC_FILE, "rounds.json"):
        os.mkfifo(tmp_path / name)
    assert not in_use(tmp_path)
    assert bundle._tail(tmp_path / "network.log") == ""
    assert RoundCounter(tmp_path / "rounds.json").next == 0
    assert Traffic(tmp_path, 1).megabytes == 0


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"next": 1e999, "month": "", "bytes": 1e999}', "[]", "null", '{"next": {}}',
     '{"next": -5, "month": 1, "bytes": -5}', "\0" * 5000],
)  # fmt: skip
def test_counters_that_make_no_sense_begin_anew(tmp_path: Path, text: str) -> None:
    for name in (TRAFFIC_FILE, "rounds.json"):
        (tmp_path / name).write_text(text)
    assert Traffic(tmp_path, 1).megabytes == 0 and RoundCounter(tmp_path / "rounds.json").next == 0


@pytest.mark.parametrize("rank", [10**12, -1, "8", None])
def test_a_checkpoint_names_no_rank_that_no_adapter_has(tmp_path: Path, rank: Any) -> None:
    folder = tmp_path / "checkpoints" / "00000001"
    folder.mkdir(parents=True)
    state = {"extra": {"model": {"name": "rare", "lora_rank": rank}}}
    (folder / "state.json").write_text(json.dumps(state))
    assert resolved(NodeConfig(home=tmp_path), lambda text: None).model.lora_rank == 0
    (folder / "state.json").write_text("[" * 100_000)
    assert model_of(tmp_path) == {}


def test_a_link_in_a_checkpoint_is_damage(tmp_path: Path) -> None:
    (tmp_path / "config.json").symlink_to("/etc/passwd")
    with pytest.raises(Damaged, match="not a plain file"):
        check_plain(tmp_path)


ANSWERS = (
    "[" * 100_000, "null", "[]", "1", '"x"', "{}", '{"role": 1, "training": [], "network": []}',
    '{"role": "node", "training": {}, "network": {"enabled": true}}',
    '{"role": "node", "training": {"round": 1}, "network": {"peers": 5}}',
    '{"role": "node", "training": {"seconds_since": "x"}, "network": {"running": true}}',
    '{"training": null, "network": {"peers": [null], "running": 1}}',
    '{"role": "node", "training": {"seconds_since": 1e999, "round_seconds": NaN}}', "\ud800",
)  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS, ids=range(len(ANSWERS)))
@pytest.mark.parametrize("command", ["status", "peers"])
def test_what_answers_in_a_home_may_say_anything(
    tmp_path: Path, answer: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(control.socket_path(tmp_path)))
        listener.listen()

        def answers() -> None:
            caller, _ = listener.accept()
            with caller:
                caller.sendall(answer.encode("utf-8", "surrogatepass"))

        thread = threading.Thread(target=answers)
        thread.start()
        try:
            code = outcome([command, "--home", str(tmp_path)])
        except SystemExit as left:
            code = int(left.code or 0)
        thread.join()
    assert code in (0, 1, 2)
    said = capsys.readouterr()
    assert "Traceback" not in said.err and len(said.err.splitlines()) <= 1


def test_a_socket_that_dribbles_is_left_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "ANSWER_SECONDS", 0.3)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(control.socket_path(tmp_path)))
        listener.listen()
        over = threading.Event()

        def dribbles() -> None:
            caller, _ = listener.accept()
            with caller:
                while not over.wait(0.05):
                    try:
                        caller.sendall(b"[")
                    except OSError:
                        return

        thread = threading.Thread(target=dribbles)
        thread.start()
        assert status.ask(tmp_path)["healthy"] is False
        over.set()
        thread.join()


def test_a_link_to_a_checkpoint_of_another_home_is_no_checkpoint(tmp_path: Path) -> None:
    """Older checkpoints are deleted, and their optimiser's state before: those of another home
    were.
    """
    mine, home = tmp_path / "mine" / "00000001", tmp_path / "home"
    for folder in (mine, home / "00000002"):
        folder.mkdir(parents=True)
        (folder / "state.json").write_text("{}")
    (home / "00000001").symlink_to(mine)
    assert all_checkpoints(home) == [home / "00000002"]


def linked(home: Path, mine: Path) -> None:
    """A home whose folder of checkpoints is that of another home."""
    home.mkdir()
    (home / "events.jsonl").write_text("")
    for folder in ("checkpoints", "best"):
        (mine / folder / "00000001").mkdir(parents=True)
        (mine / folder / "00000001" / "state.json").write_text("{}")
        (home / folder).symlink_to(mine / folder)


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--max-rounds", "1"), ("ask",), ("model", "eval"), ("model", "export", "out"),
        ("home", "backup", "b"), ("home", "id"), ("check",), ("doctor",), ("status",), ("peers",),
        ("pause",), ("resume",), ("bootstrap",), ("page",), ("model", "push", "a/b"),
    ],
)  # fmt: skip
def test_no_command_follows_a_link_to_a_folder_in_a_home(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Checkpoints of another home were read, and the older ones of them deleted."""
    home, mine = tmp_path / "home", tmp_path / "mine"
    linked(home, mine)
    monkeypatch.chdir(tmp_path)
    named = ("--folder" if words[0] == "page" else "--home", str(home))
    assert outcome([*words, *named]) == 2
    said = capsys.readouterr().err
    assert "holds a link, best and 1 more" in said and said.count("\n") == 1
    assert sorted(path.name for path in mine.rglob("*")) == sorted(
        ["best", "checkpoints", "00000001", "00000001", "state.json", "state.json"]
    )
    assert sorted(path.name for path in home.iterdir()) == ["best", "checkpoints", "events.jsonl"]


def test_a_link_at_any_depth_is_found_and_what_users_put_there_may_be_one(tmp_path: Path) -> None:
    deep = tmp_path / "checkpoints" / "00000001"
    deep.mkdir(parents=True)
    for name in MAY_BE_LINKS:
        (tmp_path / name).symlink_to("/etc/hostname")
    (tmp_path / "trackio").mkdir()
    (tmp_path / "trackio" / "latest").symlink_to(deep)
    assert links_in(tmp_path) == [] and links_in(tmp_path / "none") == []
    (deep / "model.safetensors").symlink_to("/etc/hostname")
    (tmp_path / "a\x1b[2J").symlink_to("/nowhere")
    assert links_in(tmp_path) == ["a\x1b[2J", "checkpoints/00000001/model.safetensors"]
    with pytest.raises(UserError, match=r"holds a link, a\?\[2J and 1 more") as raised:
        check_links(tmp_path)
    assert "\x1b" not in str(raised.value)
    (tmp_path.parent / "linked_home").symlink_to(tmp_path / "trackio", target_is_directory=True)
    assert links_in(tmp_path.parent / "linked_home") == ["latest"], "a home may be a link itself"


def test_the_token_of_a_page_in_a_strangers_home_opens_nothing(tmp_path: Path) -> None:
    """Whoever made the home knew it, and could see and command the node of whoever runs it."""
    theirs = "x" * 32
    (tmp_path / "page.token").write_text(theirs)
    (tmp_path / "page.token").chmod(0o644)
    ours = token_of(tmp_path)
    assert ours != theirs and (tmp_path / "page.token").read_text().strip() == ours
    assert (tmp_path / "page.token").stat().st_mode & 0o777 == 0o600
    assert token_of(tmp_path) == ours, "our own stays"
    other = tmp_path / "moved"
    other.mkdir()
    (other / "page.token").write_text(ours)
    assert token_of(other) != ours, "that of another home is none of this one"


@pytest.mark.parametrize("content", ["[]", "[" * 100_000, '{"x": 1}', "", "\0"])
def test_a_record_of_secrets_that_makes_no_sense_knows_none(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    home = tmp_path / "home"
    home.mkdir()
    ours = token_of(home)
    record = tmp_path / "state" / "swarm-node" / "secrets.json"
    assert ours not in record.read_text() and record.stat().st_mode & 0o777 == 0o600
    assert token_of(home) == ours
    record.write_text(content)
    assert (fresh := token_of(home)) != ours and token_of(home) == fresh
    record.chmod(0o666)
    assert token_of(home) != fresh, "others could have written it"
