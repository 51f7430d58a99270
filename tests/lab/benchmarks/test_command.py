"""What all commands of benchmarks, studies and fuzzing have in common."""

from pathlib import Path

import pytest

from lab.benchmarks import command


def test_a_study_writes_under_runs_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parser = command.parser("lab.studies.example", "An example.")
    command.add_runs(parser)
    command.add_out(parser)
    assert command.out(parser.parse_args([])) == Path("runs/studies/example")
    assert command.out(parser.parse_args(["--runs", "elsewhere"])) == Path("elsewhere")
    chosen = command.out(
        parser.parse_args(["--runs", "elsewhere", "--out", "docs/results/example"])
    )
    assert chosen == Path("docs/results/example") and chosen.is_dir()


def test_what_is_kept_is_made_once_and_what_is_interrupted_again(tmp_path: Path) -> None:
    file, calls = tmp_path / "new" / "cell.json", []

    def interrupted() -> dict[str, int]:
        raise KeyboardInterrupt

    def made() -> dict[str, int]:
        calls.append(1)
        return {"reward": len(calls)}

    with pytest.raises(KeyboardInterrupt):
        command.kept(file, interrupted)
    assert not list(file.parent.iterdir()) and command.kept(file, made) == command.kept(
        file, made
    ) == {"reward": 1}
    assert calls == [1] and list(file.parent.iterdir()) == [file]
