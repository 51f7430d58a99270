"""A data set of the hub is read as the user's variables say, and without a connection at once."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm_node.common.errors import TemporaryError, UserError
from swarm_node.environments.dataset import hub
from swarm_node.environments.dataset.environment import Facts, read
from swarm_node.settings.questions import DatasetConfig
from tests.hub_stand_in import TOKEN, Hub, hub_on_loopback

pytest.importorskip("datasets")

ROWS = [{"question": f"{a} + {b} =", "answer": str(a + b)} for a in range(6) for b in range(6)]
PRIVATE = DatasetConfig(file="hf:me/rows")
# A connection that fails is tried again and again by the hub's library, for minutes
AT_ONCE = 60.0


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A hub whose only data set is for those who show the token."""
    for name in ("HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "HF_DATASETS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    for name in hub.PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with hub_on_loopback() as server:
        server.locked = True
        lines = "".join(f"{json.dumps(row)}\n" for row in ROWS).encode()
        server.rows["me/rows"] = {"train.jsonl": lines, "README.md": b"---\nlicense: mit\n---\n"}
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        yield server


def count(facts: Facts) -> int:
    return facts.train + facts.held_out


@pytest.mark.slow
def test_a_private_data_set_is_read_with_the_token_which_nothing_says(
    served, monkeypatch, tmp_path
) -> None:
    with pytest.raises(UserError, match="hf:me/rows cannot be loaded"):
        read(PRIVATE)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    facts = read(PRIVATE)
    assert count(facts) == len(ROWS) and facts.besides == []
    assert f"Bearer {TOKEN}" in served.tokens
    with pytest.raises(UserError) as caught:
        read(DatasetConfig(file="hf:me/nothing"))
    kept = [file.read_bytes() for file in (tmp_path / "cache").rglob("*") if file.is_file()]
    said = f"{caught.value} {facts} {kept}"
    assert kept and TOKEN not in said and "\n" not in str(caught.value)
    # It reads the rows once more, from the copy, with neither token nor hub
    monkeypatch.delenv("HF_TOKEN")
    again = read(PRIVATE)
    assert again.version == facts.version and "those that were read on" in again.besides[0]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    again = read(PRIVATE)
    assert again.version == facts.version and "HF_HUB_OFFLINE is set" in again.besides[0]
    for file in (tmp_path / "cache").rglob("*.jsonl"):
        assert file.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_a_proxy_of_the_user_is_gone_through(served, monkeypatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.invalid")
    with pytest.raises(TemporaryError, match=r"hub\.invalid"):
        read(PRIVATE)
    monkeypatch.setenv("HTTP_PROXY", served.address)
    assert count(read(PRIVATE)) == len(ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"])
def test_offline_asks_nobody_and_says_what_to_do_in_one_line(name, served, monkeypatch) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(UserError, match=f"{name} is set, .* --repo-type dataset") as caught:
        read(PRIVATE)
    assert not isinstance(caught.value, TemporaryError) and "\n" not in str(caught.value)
    assert served.tokens == set()


@pytest.mark.slow
def test_a_hub_that_does_not_answer_costs_seconds_and_may_pass(served, monkeypatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    began = time.monotonic()
    with pytest.raises(TemporaryError, match=r"127\.0\.0\.1:1 cannot be reached"):
        read(PRIVATE)
    assert time.monotonic() - began < AT_ONCE


@pytest.mark.slow
def test_offline_a_data_set_in_the_cache_of_the_hub_is_read(served, monkeypatch, tmp_path) -> None:
    folder = tmp_path / "hf" / "hub" / "datasets--me--rows"
    snapshot = folder / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    for name, content in served.rows["me/rows"].items():
        (snapshot / name).write_bytes(content)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("0" * 40)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert count(read(PRIVATE)) == len(ROWS)


def test_a_file_is_read_without_any_of_these_variables(monkeypatch) -> None:
    for name in hub.OF_THE_HUB:
        monkeypatch.setenv(name, "a secret")
    assert "a secret" not in hub.variables("rows.jsonl").values()
    given = hub.variables("hf:me/rows")
    assert {given[name] for name in hub.OF_THE_HUB} == {"a secret"}
    assert not given.keys() - {*hub.OF_THE_HUB, *hub.SILENT, *hub.KEPT_VARIABLES, "PYTHONUTF8"}
    assert "OPENAI_API_KEY" not in given and os.environ["HF_TOKEN"] == "a secret"


def test_a_reading_that_breaks_off_leaves_the_copy_before_it(tmp_path) -> None:
    copy = tmp_path / "copy.jsonl"
    copy.write_text('{"a": 1}\n')

    def broken() -> Iterator[tuple[int, dict[str, int]]]:
        yield 1, {"a": 2}
        raise UserError("the connection ended")

    with pytest.raises(UserError, match="the connection ended"):
        list(hub._keeping(copy, broken()))
    assert copy.read_text() == '{"a": 1}\n' and os.listdir(tmp_path) == ["copy.jsonl"]
    whole = iter([(1, {"a": 3, "b": float("nan")}), (2, {"a": object()})])
    assert len(list(hub._keeping(copy, whole))) == 2
    rows = [row for _, row in hub._of_copy(copy)]
    assert rows[0]["a"] == 3 and rows[1] == {"a": None}


def test_a_cache_that_cannot_be_written_hinders_nothing(tmp_path) -> None:
    (tmp_path / "file").touch()
    rows = iter([(1, {"a": 3})])
    assert list(hub._keeping(tmp_path / "file" / "copy.jsonl", rows)) == [(1, {"a": 3})]
