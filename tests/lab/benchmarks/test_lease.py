"""The script for a lent card: parts end on their own, what was done stays, and its page claims no
more than that.
"""

import hashlib
import json
from pathlib import Path

import pytest

from lab.benchmarks import lease, lease_parts
from lab.benchmarks.lease import (
    FILE,
    PARTS,
    Part,
    join,
    join_large,
    laid_out,
    page,
    run,
    split,
    split_large,
    take,
)


def answered(words: str) -> Part:
    return Part("a question", words, seconds=20.0)


def kept(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / FILE).read_text().splitlines()]


def test_a_part_that_fails_or_hangs_does_not_stop_the_others(tmp_path) -> None:
    parts = {
        "fails": answered("-c raise(SystemExit(3))"),
        "hangs": Part("", "-c __import__('time').sleep(600)", seconds=1.0),
        "answers": answered("-c " + "print('first'),print('{\"figure\":1}')"),
    }
    found = [*run(parts, tmp_path, 60.0, {}, card=True)]
    assert [each["status"] for each in found] == ["failed (3)", "out of time", "done"]
    assert found[-1]["result"] == {"figure": 1}
    assert kept(tmp_path) == found
    assert found[1]["seconds"] < 30.0


def test_what_was_done_is_written_before_the_next_part_begins(tmp_path) -> None:
    parts = {"first": answered("-c print(1)"), "second": answered("-c print(2)")}
    running = run(parts, tmp_path, 60.0, {}, card=True)
    next(running)
    assert [each["part"] for each in kept(tmp_path)] == ["first"]


def test_no_part_begins_where_no_time_is_left(tmp_path) -> None:
    (found,) = run({"late": answered("-c print(1)")}, tmp_path, 1.0, {}, card=True)
    assert found["status"] == "no time left"


def test_without_a_card_parts_are_quick_or_say_that_they_need_one(tmp_path) -> None:
    parts = {
        "quick": answered("-c __import__('builtins').print(*__import__('sys').argv[1:]) --gpu"),
        "needs": Part("", "-c print(1)", 5.0, quick=""),
    }
    found = {each["part"]: each for each in run(parts, tmp_path, 60.0, {}, card=False)}
    assert found["quick"]["result"] == "--quick"
    assert found["needs"]["status"] == "needs a card"


def test_what_is_sent_fits_and_comes_together_again(tmp_path, monkeypatch) -> None:
    whole, store = tmp_path / "whole", tmp_path / "store"
    whole.mkdir()
    model = bytes(range(256)) * 10
    (tmp_path / "model").write_bytes(model)
    split(tmp_path / "model", whole, 1000)
    for number, size in enumerate((700, 300, 100)):
        (whole / f"some{number}.whl").write_bytes(b"0" * size)
    folders = laid_out(whole, tmp_path, 1000)
    sizes = [sum(file.stat().st_size for file in folder.iterdir()) for folder in folders]
    assert len(folders) == 4 and max(sizes) <= 1000 and sum(sizes) == len(model) + 1100
    monkeypatch.setitem(
        lease.named.KNOWN,
        lease.MODEL,
        lease.named.OfPackage("", "", "", "", hashlib.sha256(model).hexdigest(), ""),
    )
    for folder in folders[:-1]:
        take(folder, store)
    lacking = any(file.suffix != ".whl" for file in folders[-1].iterdir())
    assert (join(store) is None) == lacking
    take(folders[-1], store)
    joined = join(store)
    assert joined is not None and joined.read_bytes() == model


def test_a_wheel_that_is_too_large_to_be_sent_at_once_comes_together_again(tmp_path) -> None:
    content = bytes(range(250)) * 10
    (tmp_path / "large-1.0.whl").write_bytes(content)
    (tmp_path / "small-1.0.whl").write_bytes(b"0" * 100)
    split_large(tmp_path, 1000)
    assert max(file.stat().st_size for file in tmp_path.iterdir()) <= 1000
    join_large(tmp_path)
    assert (tmp_path / "large-1.0.whl").read_bytes() == content


def test_the_page_names_the_card_and_says_what_was_never_run() -> None:
    nothing = page([])
    assert "The card: no card yet." in nothing and nothing.count("never run") == len(PARTS)
    on_a_cpu = [
        {"part": "machine", "status": "done", "seconds": 1.0, "result": {"card": "none"}},
        {"part": "step", "status": "done", "seconds": 1.0, "result": {"figure": 7}},
    ]
    assert page(on_a_cpu) == nothing, "figures of a trial on a CPU mean nothing"
    results = [
        {
            "part": "machine",
            "status": "done",
            "seconds": 2.0,
            "result": {"card": "RTX 3060", "torch": "2.13.0", "cuda": "13.0"},
        },
        {"part": "step", "status": "out of time", "seconds": 60.0, "result": ""},
        {"part": "fp8", "status": "done", "seconds": 50.0, "result": {"ratio": 1.25}},
    ]
    made = page(results)
    assert "The card: RTX 3060. torch 2.13.0 for CUDA 13.0" in made
    assert '"ratio": 1.25' in made and "out of time" in made
    assert made.count("never run") == len(PARTS) - 3


def test_the_page_in_the_documentation_is_the_one_that_the_script_writes() -> None:
    assert "# What was measured on a card" in lease.PAGE.read_text()
    if "no card yet" in lease.PAGE.read_text():
        assert lease.PAGE.read_text() == page([])


def test_each_part_names_a_module_or_a_measurement_that_exists() -> None:
    for name, part in PARTS.items():
        words = part.words.split()
        assert words[0] == "-m", name
        if words[1] == "lab.benchmarks.lease_parts":
            assert words[2] in lease_parts.PARTS, name
        elif words[1].startswith("lab."):
            assert (lease.command.ROOT / (words[1].replace(".", "/") + ".py")).exists(), name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["machine", "step", "memory"])
def test_a_part_runs_to_its_end_on_a_cpu(name, tmp_path) -> None:
    (found,) = run({name: PARTS[name]}, tmp_path, 900.0, {}, card=False)
    assert found["status"] == "done", found
    assert isinstance(found["result"], dict) and "failed" not in json.dumps(found["result"])
