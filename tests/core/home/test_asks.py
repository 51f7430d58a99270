"""What a home asks goes on with it; what only its user may name is known by the user's record."""

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protocol.identity import Identity
from swarm_node.common.errors import UserError
from swarm_node.home import asks, record
from swarm_node.home.asks import ASKS_FILE, asked_by, going_on, keep
from swarm_node.home.folder import KEY_FILE, load_identity
from swarm_node.settings import EvaluationConfig, NodeConfig
from swarm_node.settings.command_line import from_command_line

ROWS = '{"prompt": "1 + 1 =", "answer": "2"}\n'
Given = Callable[..., Any]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder of this test's user, who stands in `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "q.jsonl").write_text(ROWS)
    (tmp_path / "my_task.py").write_text("class Mine: ...\n")
    return tmp_path / "state" / "swarm-node"


def given(home: Path, *flags: str) -> Any:
    return from_command_line(NodeConfig, ["--home", str(home), *flags], "swarm-node run")


def trained(home: Path, *flags: str) -> list[str]:
    """Notes what a node with these flags notes at its start; what it says."""
    said: list[str] = []
    home.mkdir(exist_ok=True)
    load_identity(home)
    keep(home, asked_by(going_on(given(home, *flags), home, said.append)), said.append)
    return said


def start(home: Path, *flags: str) -> tuple[Any, list[str]]:
    """The configuration of a later start, and what it says."""
    said: list[str] = []
    return going_on(given(home, *flags), home, said.append), said


def refused(home: Path, *flags: str) -> str:
    with pytest.raises(UserError) as error:
        start(home, *flags)
    (line,) = str(error.value).splitlines()
    return line


def of_a_stranger(home: Path, *rows: str) -> Path:
    """A home that somebody else made, with these rows in its file."""
    home.mkdir()
    (home / KEY_FILE).write_bytes(Identity.create().key_bytes())
    (home / KEY_FILE).chmod(0o600)
    (home / ASKS_FILE).write_text("\n".join(rows))
    return home


def test_a_later_start_goes_on_with_all_that_was_given_and_says_so(
    tmp_path: Path, state: Path
) -> None:
    flags = [
        *(
            "--dataset.file",
            "q.jsonl",
            "--dataset.verifier",
            "number",
            "--dataset.prompt",
            "prompt",
        ),
        *("--environment.use", "my_task:Mine", "--environment.shots", "2"),
        *(
            "--environment.system",
            '/etc says:\nbe \x7f "brief"',
            "--generation.stop",
            "\\n",
            "/a:b",
        ),
        *("--environment.tasks", "dataset/train", "words/short"),
    ]
    assert trained(tmp_path / "home", *flags) == []
    os.chdir("/")
    config, said = start(tmp_path / "home")
    assert config.dataset.file == str(tmp_path / "q.jsonl")
    assert config.dataset.verifier == "number" and config.dataset.prompt == "prompt"
    assert config.environment.use == (f"{tmp_path / 'my_task.py'}:Mine",)
    assert config.environment.tasks == ("dataset/train", "words/short")
    assert config.environment.shots == 2 and config.generation.stop == ("\n", "/a:b")
    assert config.environment.system == '/etc says:\nbe \x7f "brief"'
    (line,) = said
    assert line.startswith("using the options that this home used before: ")
    assert asked_by(config) == asked_by(start(tmp_path / "home")[0])
    assert str(tmp_path) not in (tmp_path / "home" / ASKS_FILE).read_text()


def test_only_this_user_may_read_the_record_and_a_home_without_files_leaves_none(
    tmp_path: Path, state: Path
) -> None:
    trained(tmp_path / "plain", "--environment.tasks", "gcd/tiny")
    assert not state.exists()
    assert start(tmp_path / "plain")[0].environment.tasks == ("gcd/tiny",)
    trained(tmp_path / "home", "--dataset.file", "q.jsonl")
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert stat.S_IMODE((state / record.RECORD).stat().st_mode) == 0o600
    assert set(json.loads((state / record.RECORD).read_text())["homes"]) == {str(tmp_path / "home")}
    trained(tmp_path / "home", "--environment.tasks", "gcd/tiny")
    assert json.loads((state / record.RECORD).read_text())["homes"] == {}


def test_a_flag_changes_what_is_asked_and_a_line_says_so(tmp_path: Path, state: Path) -> None:
    home = tmp_path / "home"
    trained(home, "--environment.tasks", "gcd/tiny", "--environment.shots", "1")
    config, (changed, rest) = start(home, "--environment.tasks", "lcm/easy")
    assert config.environment.tasks == ("lcm/easy",) and config.environment.shots == 1
    assert "changed by you: environment.tasks lcm/easy (before: gcd/tiny)" in changed
    assert rest == "using the options that this home used before: environment.shots 1"
    assert start(home, "--environment.tasks", "gcd/tiny", "--environment.shots", "1")[1] == []
    (line,) = start(home, *("--environment.tasks", "gcd/tiny", "--environment.shots", "2"))[1]
    assert line.endswith("environment.shots 2 (before: 1)")


@pytest.mark.parametrize(
    ("before", "now", "tasks", "file"),
    [
        (["--environment.tasks", "gcd/tiny"], ["--dataset.file", "q.jsonl"], (), True),
        (["--dataset.file", "q.jsonl"], ["--environment.tasks", "gcd/tiny"], ("gcd/tiny",), False),
        (["--environment.use", "my_task:Mine"], ["--dataset.file", "q.jsonl"], (), True),
        (["--dataset.file", "q.jsonl"], ["--environment.use", "my_task:Mine"], (), False),
        (
            ["--dataset.file", "q.jsonl"],
            ["--environment.tasks", "dataset/train", "gcd/tiny"],
            ("dataset/train", "gcd/tiny"),
            True,
        ),
    ],
    ids=["tasks, file", "file, tasks", "plug-in, file", "file, plug-in", "file, file and tasks"],
)
def test_another_source_of_questions_takes_the_place_of_the_old_one(
    tmp_path: Path, state: Path, before: list[str], now: list[str], tasks: Any, file: bool
) -> None:
    trained(tmp_path / "home", *before)
    said = trained(tmp_path / "home", *now)
    config, _ = start(tmp_path / "home")
    assert config.environment.tasks == tasks and bool(config.dataset.file) is file
    assert bool(config.environment.use) is ("--environment.use" in now)
    assert said[0].startswith("changed by you: ")


def test_a_changed_file_is_not_taken_in_silence(tmp_path: Path, state: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "q.jsonl"
    trained(home, "--dataset.file", "q.jsonl")
    file.write_text(ROWS + ROWS.replace("1", "2"))
    line = refused(home)
    assert f"{file} has changed since this home was trained on it" in line
    assert line.endswith(f"give --dataset.file {file} to continue with it")
    config, (said,) = start(home, "--dataset.file", "q.jsonl")
    assert config.dataset.file == "q.jsonl" and "(before: with another content)" in said
    trained(home, "--dataset.file", "q.jsonl")
    assert start(home)[0].dataset.file == str(file)
    file.unlink()
    assert f"{file}, which this home was trained on, cannot be read: say where" in refused(home)
    os.mkfifo(file)
    assert "cannot be read" in refused(home)


def test_a_link_that_leads_elsewhere_is_another_file(tmp_path: Path, state: Path) -> None:
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "q.jsonl")
    trained(tmp_path / "home", "--dataset.file", "link.jsonl")
    shutil.copy(tmp_path / "q.jsonl", tmp_path / "copy.jsonl")
    (tmp_path / "link.jsonl").unlink()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "copy.jsonl")
    assert "has changed since" in refused(tmp_path / "home")


def test_a_changed_plug_in_is_not_loaded(tmp_path: Path, state: Path) -> None:
    trained(tmp_path / "home", "--environment.use", "my_task:Mine")
    (tmp_path / "my_task.py").write_text("raise SystemExit\n")
    assert f"give --environment.use {tmp_path / 'my_task.py'}:Mine" in refused(tmp_path / "home")


def test_a_home_that_was_moved_or_copied_says_what_to_name(tmp_path: Path, state: Path) -> None:
    trained(tmp_path / "home", "--dataset.file", "q.jsonl", "--dataset.verifier", "number")
    shutil.copytree(tmp_path / "home", tmp_path / "copy")
    line = refused(tmp_path / "copy")
    assert "was trained with dataset.file q.jsonl, dataset.verifier number" in line
    assert (
        "start with --dataset.file q.jsonl --dataset.verifier number, or name other tasks with"
        in line
    )
    assert "--dataset.verifier number" in refused(tmp_path / "copy", "--dataset.file", "q.jsonl")
    both = ("--dataset.file", "q.jsonl", "--dataset.verifier", "number")
    assert start(tmp_path / "copy", *both)[1] == []
    (changed,) = start(tmp_path / "copy", "--environment.tasks", "gcd/tiny")[1]
    assert "in place of dataset.file q.jsonl, dataset.verifier number" in changed


def test_a_link_to_the_home_is_the_same_home(tmp_path: Path, state: Path) -> None:
    trained(tmp_path / "home", "--dataset.file", "q.jsonl")
    (tmp_path / "link").symlink_to(tmp_path / "home")
    assert start(tmp_path / "link")[0].dataset.file == str(tmp_path / "q.jsonl")


def test_a_home_of_another_identity_at_the_same_place_gets_nothing(
    tmp_path: Path, state: Path
) -> None:
    trained(tmp_path / "home", "--dataset.file", "q.jsonl")
    rows = (tmp_path / "home" / ASKS_FILE).read_text()
    shutil.rmtree(tmp_path / "home")
    of_a_stranger(tmp_path / "home", rows)
    assert "which only its user may name" in refused(tmp_path / "home")
    (tmp_path / "home" / KEY_FILE).unlink()
    assert "which only its user may name" in refused(tmp_path / "home")


@pytest.mark.parametrize(
    "row",
    [
        'dataset.file = "/etc/passwd"',
        'dataset.file = "{folder}/q.jsonl"',
        'dataset.file = "q.jsonl"',
        'dataset.verifier = "{folder}/evil.py:X"',
        'environment.use = ["{folder}/evil.py:X"]',
        'environment.use = ["evil:X"]',
        'taskset.name = "{folder}/evil.py"',
        'temporal_clue.puzzles = "/etc/passwd"',
        'dataset.salt = "hush"',
    ],
)
def test_what_a_strangers_home_names_is_neither_read_nor_loaded(
    tmp_path: Path, state: Path, row: str
) -> None:
    (tmp_path / "evil.py").write_text("open('ran', 'w')\n")
    home = of_a_stranger(tmp_path / "home", row.format(folder=tmp_path))
    line = refused(home)
    assert "which only its user may name" in line and "hush" not in line
    config, _ = start(home, "--environment.tasks", "gcd/tiny")
    assert not asked_by(config).keys() - {"environment.tasks"}
    assert not (tmp_path / "ran").exists()


def test_a_strangers_home_sets_nothing_but_what_is_asked(tmp_path: Path, state: Path) -> None:
    rows = ['network.p2pd = "/bin/sh"', 'swarm = "theirs"', 'environment.tasks = ["gcd/tiny"]']
    home = of_a_stranger(tmp_path / "home", *rows, 'model.name = "x"', "max_rounds = 1")
    config, _ = start(home)
    assert config.environment.tasks == ("gcd/tiny",)
    assert (config.swarm, config.network.p2pd, config.max_rounds) == ("public", "", 0)


def test_a_record_within_a_home_is_none(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home may be the folder of its user, as in a container: a stranger's home holds a record."""
    home = tmp_path / "home"
    trained(home, "--dataset.file", "q.jsonl")
    for inside in (home, home / ".local" / "state"):
        shutil.copytree(state, inside / "swarm-node")
        monkeypatch.setenv("XDG_STATE_HOME", str(inside))
        assert "which only its user may name" in refused(home)
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(home))
    assert "which only its user may name" in refused(home)
    (line,) = trained(home, "--dataset.file", "q.jsonl")
    assert line.endswith(f"give next time --dataset.file {tmp_path / 'q.jsonl'}")


def test_a_record_that_another_user_could_write_is_none(tmp_path: Path, state: Path) -> None:
    trained(tmp_path / "home", "--dataset.file", "q.jsonl")
    (state / record.RECORD).chmod(0o622)
    assert "which only its user may name" in refused(tmp_path / "home")
    (state / record.RECORD).chmod(0o600)
    state.chmod(0o777)
    assert "which only its user may name" in refused(tmp_path / "home")
    trained(tmp_path / "home", "--dataset.file", "q.jsonl")
    assert start(tmp_path / "home")[0].dataset.file


@pytest.mark.parametrize(
    "content", [b"", b"[" * 100_000, b'{"format": 2}', b'{"homes": {"a": 1}}', b"\xff", b"1e999"]
)
def test_a_broken_record_is_none_and_is_written_anew(
    tmp_path: Path, state: Path, content: bytes
) -> None:
    trained(tmp_path / "home", "--dataset.file", "q.jsonl")
    (state / record.RECORD).write_bytes(content)
    assert "which only its user may name" in refused(tmp_path / "home")
    assert trained(tmp_path / "home", "--dataset.file", "q.jsonl") == []
    assert start(tmp_path / "home")[0].dataset.file


def test_a_link_in_place_of_the_record_is_not_followed(tmp_path: Path, state: Path) -> None:
    trained(tmp_path / "home", "--dataset.file", "q.jsonl")
    (state / record.RECORD).rename(tmp_path / "other.json")
    (state / record.RECORD).symlink_to(tmp_path / "other.json")
    assert "which only its user may name" in refused(tmp_path / "home")
    trained(tmp_path / "home", "--dataset.file", "q.jsonl")
    assert not (state / record.RECORD).is_symlink()


@pytest.mark.parametrize("named", ["", "relative/state"])
def test_without_a_state_folder_one_line_says_what_to_give_again(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    def nobody(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("XDG_STATE_HOME", named)
    monkeypatch.setattr(record.Path, "expanduser", nobody)
    assert record.state_folder(tmp_path / "home") is None
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(record, "state_folder", lambda home: None)
    (line,) = trained(tmp_path / "home", "--dataset.file", "q.jsonl")
    assert line.endswith(f"give next time --dataset.file {tmp_path / 'q.jsonl'}")
    assert "which only its user may name" in refused(tmp_path / "home")


def test_the_state_folder_is_that_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for named in ("", "relative/state"):
        monkeypatch.setenv("XDG_STATE_HOME", named)
        assert record.state_folder(tmp_path / "h") == tmp_path / ".local/state/swarm-node"


def test_a_record_that_cannot_be_written_ends_no_run(tmp_path: Path, state: Path) -> None:
    state.parent.write_text("a file lies here")
    (line,) = trained(tmp_path / "home", "--dataset.file", "q.jsonl")
    assert "cannot be written" in line and "give next time --dataset.file" in line


def test_a_secret_is_in_neither_file_and_is_asked_for_again(tmp_path: Path, state: Path) -> None:
    trained(tmp_path / "home", "--dataset.file", "q.jsonl", "--dataset.salt", "hush")
    kept = (state / record.RECORD).read_text() + (tmp_path / "home" / ASKS_FILE).read_text()
    assert "hush" not in kept
    line = refused(tmp_path / "home")
    assert "start with --dataset.salt ..., or name other tasks with --environment.tasks" in line
    config, _ = start(tmp_path / "home", "--dataset.salt", "hush")
    assert config.dataset.file == str(tmp_path / "q.jsonl")


def test_a_home_of_an_earlier_version_asks_the_defaults_without_a_word(
    tmp_path: Path, state: Path
) -> None:
    (tmp_path / "home").mkdir()
    for flags in ([], ["--environment.tasks", "gcd/tiny"], ["--dataset.file", "q.jsonl"]):
        assert start(tmp_path / "home", *flags) == (given(tmp_path / "home", *flags), [])


def test_a_home_that_asked_the_defaults_says_when_it_asks_something_else(
    tmp_path: Path, state: Path
) -> None:
    assert trained(tmp_path / "home") == [] and start(tmp_path / "home")[1] == []
    (line,) = start(tmp_path / "home", "--environment.tasks", "gcd/tiny")[1]
    assert "environment.tasks gcd/tiny (before: the default)" in line


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("environment.shots = -1", "environment.shots"),
        ("environment.tasks = 3", "environment.tasks"),
        ('environment.answer = "\x1b[2J"', "TOML"),
        ("environment.shots = " + "[" * 500, "TOML"),
    ],
)
def test_a_damaged_file_of_a_home_is_a_line(
    tmp_path: Path, state: Path, row: str, why: str
) -> None:
    line = refused(of_a_stranger(tmp_path / "home", row))
    assert ASKS_FILE in line and why in line


def test_a_link_in_a_home_is_not_followed(tmp_path: Path, state: Path) -> None:
    home = of_a_stranger(tmp_path / "home")
    (home / ASKS_FILE).unlink()
    (home / ASKS_FILE).symlink_to(tmp_path / "q.jsonl")
    assert f"holds a link, {ASKS_FILE}" in refused(home)


def test_the_record_forgets_the_homes_noted_longest_ago(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "MAX_HOMES", 2)
    for name in ("a", "b", "a", "c"):
        trained(tmp_path / name, "--dataset.file", "q.jsonl")
    written = json.loads((state / record.RECORD).read_text())
    assert [Path(home).name for home in written["homes"]] == ["a", "c"]


def test_an_evaluation_of_a_home_asks_what_it_asked_by_its_own_flags(
    tmp_path: Path, state: Path
) -> None:
    home = tmp_path / "home"
    trained(home, "--dataset.file", "q.jsonl", "--environment.shots", "2")
    config = from_command_line(EvaluationConfig, ["--home", str(home)], "swarm-node model eval")
    found: Any = going_on(config, home, print)
    assert (found.dataset.file, found.shots) == (str(tmp_path / "q.jsonl"), 2)
    shutil.copytree(home, tmp_path / "copy")
    with pytest.raises(UserError, match=r"or name other tasks with --tasks"):
        going_on(config, tmp_path / "copy", print)


def test_every_option_of_questions_is_kept_but_secrets_and_limits() -> None:
    """A new option of an environment or a data set is part of what a home asks by itself."""
    sections = ("environment.", "dataset.", "taskset.", "temporal_clue.")
    left_out = {key for key in asks._known() if key.startswith(sections) and not asks.is_kept(key)}
    assert left_out == {"environment.time_limit", "dataset.salt"}
