"""A node that a script runs, and the error that a wrong configuration gives."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from swarm_node import NodeConfig, UserError, join, run
from swarm_node.home.folder import in_use
from tests.commands import python
from tests.waiting import until

ALONE = {
    "network": {"enabled": False},
    "round": {"questions": 2},
    "validation": {"every": 1, "questions": 2},
}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: run(seed="x"), "seed: must be a valid integer, not 'x'"),
        (lambda: join("startr"), "config file startr does not exist; did you mean starter?"),
        (
            lambda: run("starter", modle={"name": "rare"}),
            "unknown key 'modle'; did you mean 'model.name'?",
        ),
        (lambda: run(NodeConfig(seed=1), seeed=2), "unknown key 'seeed'; did you mean 'seed'?"),
    ],
)
def test_a_wrong_configuration_is_one_line(wrong: Callable[[], object], said: str) -> None:
    with pytest.raises(UserError) as caught:
        wrong()
    assert str(caught.value) == said


@pytest.mark.slow
def test_a_node_that_a_script_runs_says_how_it_is_stops_and_ends_with_the_script(
    tmp_path: Path,
) -> None:
    config = NodeConfig(
        home=tmp_path, model={"name": "rare"}, environment={"tasks": ["gcd/tiny"]}, **ALONE
    )
    node = run(config, max_rounds=2).wait()
    assert (node.round, node.events()[-1]["event"]) == (
        2,
        "RunFinished",
    ) and node.accuracy is not None
    node = run(config)
    until(lambda: node.round > 2)
    with pytest.raises(UserError, match="another node runs"):
        run(config)
    assert "ended" in repr(node.stop()) and node.events()[-1]["text"].startswith("stopped after")
    with pytest.raises(UserError, match="not 'dense'"):
        run(config, model={"name": "dense"}).wait()
    script = (
        f"import swarm_node; print(swarm_node.run('starter', home={str(tmp_path)!r}, **{ALONE}))"
    )
    assert "running" in python("-c", script).stdout
    until(lambda: not in_use(tmp_path))


@pytest.mark.slow
def test_a_node_that_a_script_runs_goes_on_with_what_its_home_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given once by a script, a data set is the home's: by its file, which is noted outside."""
    monkeypatch.chdir(tmp_path)
    home, rows = tmp_path / "home", tmp_path / "sums.jsonl"
    sums = [{"prompt": f"{a} + {a} =", "answer": str(a + a)} for a in range(20)]
    rows.write_text("".join(f"{json.dumps(row)}\n" for row in sums))
    options = {"home": home, "model": {"name": "rare"}, **ALONE}
    run(max_rounds=1, dataset={"file": rows.name, "verifier": "number"}, **options).wait()
    monkeypatch.chdir("/")
    again = run(max_rounds=2, **options).wait()
    measured = [event["by_task"] for event in again.events() if event["event"] == "Validated"]
    assert [set(by_task) for by_task in measured] == [{"dataset/held_out"}]
    told = (
        "using the options that this home used before: dataset.file sums.jsonl, "
        "dataset.verifier number\n"
    )
    assert told in (home / "output.log").read_text()
    rows.unlink()
    with pytest.raises(UserError, match=r"sums\.jsonl, which this home was trained on, cannot be"):
        run(max_rounds=3, **options).wait()
