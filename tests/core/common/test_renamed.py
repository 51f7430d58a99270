"""Names of 0.1.0 go on for one release: options are accepted, keys are written beside the new ones."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from swarm_node.common import renamed
from swarm_node.common.errors import UserError
from swarm_node.settings import NodeConfig
from swarm_node.settings.command_line import from_command_line, resolve
from swarm_node.settings.sources import describe, flatten
from swarm_node.telemetry.events import CellRound
from swarm_node.telemetry.jsonlines import JsonLines, read_jsonlines

VALUES: dict[str, Any] = {
    "defence.own_samples": 3,
    "defence.foreign_right": 1,
    "round.fill_with_own": False,
    "environment.judges": 2,
    "generation.decoder": "own",
}


def of(config: NodeConfig, name: str) -> Any:
    return flatten(config.model_dump())[renamed.option(name)]


def present(name: str) -> Any:
    return renamed.VALUES.get((name, VALUES[name]), VALUES[name])


def test_every_old_option_is_tried_and_every_new_one_exists() -> None:
    assert VALUES.keys() == {*renamed.OPTIONS, *(name for name, _ in renamed.VALUES)}
    assert {renamed.option(name) for name in VALUES} <= describe(NodeConfig).keys()
    assert not renamed.OPTIONS.keys() & describe(NodeConfig).keys()


@pytest.mark.parametrize("name", VALUES)
def test_an_old_option_is_accepted_from_file_environment_and_flags(name: str, tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(f"{name} = {json.dumps(VALUES[name])}\n")
    assert of(resolve(NodeConfig, file, {}), name) == present(name)
    variable = "SWARM_NODE_" + name.replace(".", "__").upper()
    assert of(resolve(NodeConfig, None, {variable: json.dumps(VALUES[name])}), name) == present(name)
    section, _, last = name.replace("_", "-").partition(".")
    flags = [f"--{section}.no-{last}"] if VALUES[name] is False else [f"--{section}.{last}", str(VALUES[name])]
    assert of(from_command_line(NodeConfig, flags, "run"), name) == present(name)
    if VALUES[name] is not False:
        assert of(from_command_line(NodeConfig, ["=".join(flags)], "run"), name) == present(name)


@pytest.mark.parametrize("name", renamed.GONE)
def test_an_option_that_is_gone_is_said_to_be_gone_wherever_it_stands(name: str, tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(f"{name} = true\n")
    variable = "SWARM_NODE_" + name.replace(".", "__").upper()
    for given in (
        lambda: resolve(NodeConfig, file, {}),
        lambda: resolve(NodeConfig, None, {variable: "true"}),
        lambda: from_command_line(NodeConfig, ["--" + name.replace("_", "-")], "run"),
    ):
        with pytest.raises(UserError, match=re.escape(renamed.GONE[name])):
            given()
    assert name not in describe(NodeConfig)


def test_a_file_may_still_say_that_an_option_that_is_gone_was_off(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in renamed.OFF.items()))
    assert resolve(NodeConfig, file, {}) == NodeConfig()


def test_the_environment_goes_before_the_file_whichever_name_each_uses(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    for in_file, variable in (("own_samples", "LOCAL_COMPLETIONS"), ("local_completions", "OWN_SAMPLES")):
        file.write_text(f"[defence]\n{in_file} = 3\n")
        assert resolve(NodeConfig, file, {f"SWARM_NODE_DEFENCE__{variable}": "5"}).defence.local_completions == 5


def test_every_renamed_key_is_written_under_both_names_at_any_depth() -> None:
    for new, old in renamed.KEYS.items():
        assert renamed.beside({"a": [{new: 3}]}) == {"a": [{new: 3, old: 3}]}
    seconds = {"generate": 1.0, "score": 2.0, "publish": 0.5, "collect": 0.25}
    assert renamed.beside(seconds) == {**seconds, "judge": 2.0, "share": 0.75}
    step = {"optimizer_steps": 1, "skipped": {}}
    assert renamed.beside({"step": step}) == {"step": {**step, "dropped_tokens": 0}}


def test_seconds_of_a_waiting_round_or_an_event_of_0_1_are_read_by_their_present_names() -> None:
    now = {"generate": 1.0, "score": 2.0, "collect": 0.75}
    assert renamed.phases({"generate": 1.0, "judge": 2.0, "share": 0.75}) == now
    assert renamed.phases(renamed.beside({**now, "publish": 0.5})) == {**now, "publish": 0.5}


def test_an_event_has_both_names(tmp_path: Path) -> None:
    done: dict[str, Any] = dict.fromkeys(CellRound.__annotations__, 0)
    done |= {
        "seconds": {"score": 1.0, "publish": 2.0, "collect": 3.0},
        "attack": {"generated": 4, "hostile selected": 5},
    }
    sink = JsonLines(tmp_path / "events.jsonl", warn=pytest.fail)
    sink.take(CellRound(**done))
    sink.close()
    (event,) = read_jsonlines(tmp_path / "events.jsonl")
    assert (event["seconds"]["judge"], event["seconds"]["share"]) == (1.0, 5.0)
    assert (event["attack"]["written"], event["attack"]["hostile drawn"]) == (4, 5)
