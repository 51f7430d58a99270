"""Names of version 0.1.0 that have changed since. This file goes with the next release.

Old options are accepted. Old keys of report.json, events.jsonl and `status --json` are written beside the new ones.
docs/reference/glossary.md shows the tables, and says which word stands for what.
"""

from collections.abc import Mapping
from typing import Any

OPTIONS = {  # old -> new, of every program that has the section
    "defence.own_samples": "defence.local_completions",
    "defence.foreign_right": "defence.external_completions",
    "round.fill_with_own": "round.fill_with_local",
    "environment.judges": "environment.scoring_processes",
}
GONE = {  # old -> what to say of it
    "network.gossipsub": "gone since 0.2: announcements are exchanged without it",
    "training.external_weight": "gone since 0.2: training.objective takes FILE:FUNCTION",
    "defence.floor": "gone since 0.2, with the layer clip",
}
OFF = {  # values that changed nothing: still accepted
    "network.gossipsub": False,
    "training.external_weight": "admission",
    "defence.floor": 0.02,
}
VALUES = {("generation.decoder", "own"): "native"}  # (option, old value) -> new value
KEYS = {  # new -> old, in what is written for others to read
    "received": "heard",  # status: training
    "bootstrap_nodes": "entries",  # status: network
    "last_seen": "heard",  # status and peers: network.peers
    "hostile_selected": "hostile_drawn",  # report.json: attack
    "honest selected": "honest drawn",  # events.jsonl: attack of a CellRound
    "hostile selected": "hostile drawn",
    "generated": "written",
    "score": "judge",  # seconds by phase
}
STEP = {"dropped_tokens": 0}  # keys without a successor, in the report of an update
REASONS = {  # old -> new, in `skipped` and `rejected`; only the new are written, or their sum would count twice
    "judge timeout": "scoring timeout",
    "judge crashed": "scoring crashed",
    "own message": "local message",
    "longer than own": "longer than local",
}
POOL = {"heard": "waiting"}  # old -> new, in the state that a checkpoint keeps
ALARM = {"own": "local", "heard": "external"}
EXCHANGE = {"heard": "received"}  # the same in exchange.json


def present(names: Mapping[str, str], state: Mapping[str, Any]) -> dict[str, Any]:
    """Saved state by its present names; what is no mapping, as it is, for whoever checks it."""
    return {names.get(name, name): value for name, value in state.items()} if isinstance(state, Mapping) else state


def option(name: str) -> str:
    """The present name of an option, a.b_c."""
    return OPTIONS.get(name, name)


def options(flat: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration by its present names and values. `flat`: {"a.b": value}."""
    present = {option(name): value for name, value in flat.items() if name not in OFF or value != OFF[name]}
    return {
        name: VALUES.get((name, value), value) if isinstance(value, str) else value for name, value in present.items()
    }


def beside(value: Any) -> Any:
    """JSON data with the old name of every renamed key beside the new one, at any depth."""
    if isinstance(value, list | tuple):
        return [beside(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    found = {key: beside(inner) for key, inner in value.items()}
    old = {KEYS[key]: inner for key, inner in found.items() if key in KEYS}
    if {"publish", "collect"} <= found.keys():  # one phase until 0.1.0
        old["share"] = found["publish"] + found["collect"]
    if {"optimizer_steps", "skipped"} <= found.keys():
        old |= STEP
    return found | old


def phases(seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds by phase, of this version or of 0.1.0, by present names alone."""
    old = {"judge": "score", "share": "collect"}
    present = {name: spent for name, spent in seconds.items() if name not in old}
    return {old[name]: spent for name, spent in seconds.items() if name in old and "score" not in seconds} | present
