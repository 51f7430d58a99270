"""What a stranger may have written into a folder, a backup and requests to a page. Part of `lab.fuzzing.folders`."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from swarm_node.rollouts.reports import METRICS, PHASES

MARK = "c4n4ry"  # in every payload, and nowhere else
TOKEN = "t" * 32
Where = tuple[str | int, ...]  # of a field: keys and places in lists


def payloads(place: Path) -> list[str]:
    """60, each of which would write a file with the mark in its name, load what has it, or open it."""
    out, evil = f"{place}/{MARK}-ran", f"{place}/{MARK}.py"
    python = f"__import__('pathlib').Path('{out}').touch()"
    pickled = f"cos\nsystem\n(Vtouch {out}\ntR."  # os.system, called where it is unpickled
    shell = [f"$(touch {out})", f"`touch {out}`", f"; touch {out} #", f"| touch {out}", f"&& touch {out}"]
    shell += [f"'; touch {out}; '", f'"; touch {out}; "', f"\n touch {out} \n", f"x\x00; touch {out}", f"> {out}"]
    shell += [
        f"${{IFS}};touch${{IFS}}{out}",
        f"<(touch {out})",
        f"!touch {out}",
        f"%0a touch {out}",
        f"\\\n;touch {out}",
    ]
    flags = ["--environment.use", f"--environment.use={evil}:X", f"--bundle={out}", f"--home={place}/{MARK}"]
    flags = [flags[0] + f" {evil}:X", *flags[1:], f"--observers={evil}:X", f"--defence.layers={evil}:X"]
    flags += [
        f"--network.p2pd={evil}",
        f"--page={MARK}",
        f"-c{python}",
        f"-m{MARK}",
        f"@{evil}",
        f"-{MARK}",
        f"--{MARK}",
    ]
    code = [python, f"exec({python!r})", f"f'{{{python}}}'", f"{{{{{python}}}}}", f"{{% if {python} %}}{{% endif %}}"]
    code += [f"${{{python}}}", f"<%={python}%>", f"#{{{python}}}", f"lambda: {python}", f"{{0.__class__.{MARK}}}"]
    code += [
        f"{{{{ cycler.__init__.__globals__.os.popen('touch {out}') }}}}",
        f"!!python/object/apply:os.system ['touch {out}']",
    ]
    names = [f"{evil}:X", f"{evil}", MARK, f"{MARK}:X", f"{MARK}.sub:X", f"os:{MARK}", f"file://{evil}", f"hf:{MARK}/x"]
    names += [
        f"../{MARK}",
        f"../../../../../../../{out}",
        f"/proc/self/fd/../{MARK}",
        f"~/{MARK}",
        f"//{MARK}/x",
        f"{place}/{MARK}.so",
    ]
    other = [pickled, f"<script>{MARK}</script>", f"javascript:{MARK}", f"{MARK}\r\nSet-Cookie: {MARK}=1"]
    other += [f"$\\input{{{evil}}}\\write18{{touch {out}}}$", f"=cmd|' /C touch {out}'!{MARK}"]
    return [*shell, *flags, *code, *names, *other]


def documents() -> dict[str, Any]:
    """An honest home and report, by file; a list is one of JSON lines."""
    figures: dict[str, Any] = dict.fromkeys(METRICS, 1)
    model = {"name": "rare", "revision": "", "lora": {"r": 0, "alpha": 16, "target_modules": ["q"]}}
    config = {
        "environment": {"tasks": ["gcd/easy"], "use": ["a:B"]},
        "dataset": {"file": "x.csv"},
        "temporal_clue": {"puzzles": None},
        "model": model,
        "swarm": "public",
        "home": "home",
        "page": {"listen": "127.0.0.1:1"},
        "round": {"questions": 2},
        "tracking": {"to": ["csv"]},
        "defence": {"layers": ["x"]},
        "network": {"peers": ["/ip4/127.0.0.1/tcp/1/p2p/x"], "p2pd": "", "backend": "hivemind"},
    }
    manifest = {
        "kind": "node",
        "started": "2026",
        "command": ["swarm-node", "run"],
        "seeds": [0],
        "config": config,
        "origins": {"model.name": "flag"},
        "commit": "abc",
        "versions": {"python": "3.11"},
        "hardware": {"cpu": "x", "cores": 2, "gpus": ["y"]},
    }
    report = {
        **figures,
        "peer_id": "12D3",
        "round": 0,
        "reward_by_task": {"gcd/easy": 0.5},
        "skipped": {"x": 1},
        "rejected": {"y": 1},
        "step": {**figures, "skipped": {"z": 1}},
        "seconds": dict.fromkeys(PHASES, 0.5),
        "overlap": {"wall": 1.0, "generating": 0.5, "training": 0.5, "waiting": 1},
        "external_by_peer": {"eve": {"scored": 1}},
    }
    cell = {"arm": "4/0", "seed": 0}
    events = [
        {"time": 1.0, "event": "RunStarted", "title": "t", "folder": "f", "facts": {"model": "m"}, "rounds": 0},
        {"time": 1.0, "event": "RoundDone", "report": report, "peers": 1, "waiting": 0, "alone": "x"},
        {"time": 1.0, "event": "Listening", "addresses": ["/ip4/127.0.0.1/tcp/1/p2p/x"]},
        {"time": 1.0, "event": "Resting", "reason": "r"},
        {"time": 1.0, "event": "CheckpointSaved", "round": 1, "path": "p"},
        {"time": 1.0, "event": "Validated", "round": 1, "reward": 0.5, "questions": 4, "best": True},
        {"time": 1.0, "event": "Notice", "text": "n"},
        {"time": 1.0, "event": "Warned", "text": "w"},
        {"time": 1.0, "event": "RunFinished", "text": "f"},
        {"time": 1.0, "event": "CellStarted", **cell},
        {
            "time": 1.0,
            "event": "CellRound",
            **cell,
            "round": 0,
            "reward": 0.5,
            "reward_by_task": {"gcd/easy": 0.5},
            "entropy": 1.0,
            "informative_share": 0.5,
            "external_groups": 0.0,
            "seconds": {"round": 1.0},
            "metrics": {"reward": 1.0},
        },
        {"time": 1.0, "event": "CellFinished", **cell, "cumulative_reward": 1.0},
        {"time": 1.0, "event": "CellFailed", **cell, "error": "e"},
    ]
    completion = {"text": "6", "reward": 1.0, "advantage": 0.5, "ended": True}
    sample = {"time": 1.0, "round": 0, "author": "a", "local": True, "trained": False, "why": "", "task": "gcd/easy"}
    arm = {"seeds": [0], "rewards": [[0.5]], "cumulative_rewards": [0.5], "mean": 0.5, "half_width": 0.1}
    return {
        "manifest.json": manifest,
        "events.jsonl": events,
        "rollouts.jsonl": [{**sample, "prompt": "12 and 18?", "left_out": 0, "completions": [completion]}],
        "report.json": {"arms": {"4/0": arm}, "nodes": 2, "rounds": 1, "title": "t", "commit": "c"},
        "peers.json": {"swarm": "public", "port": 0, "peers": [{"id": "x", "addresses": ["/ip4/1.2.3.4/tcp/1/p2p/x"]}]},
        "exchange.json": {"swarm": "public", "state": {"received": [["x", 1]]}},
        "rounds.json": {"next": 1},
        "budget.json": {"day": 1, "tokens": 1},
        "checkpoints/00000001/state.json": {
            "format": 1,
            "rounds": 1,
            "optimizer_steps": 1,
            "version": 1,
            "extra": {"model": model, "peer_id": "p", "waiting": ["w"], "pool": {}, "defence": {}},
        },
        "checkpoints/00000001/adapter_config.json": {"base_model_name_or_path": "m", "peft_type": "LORA"},
    }


def places(value: Any, path: Where = ()) -> Iterator[tuple[Where, bool]]:
    """Every field and every key, at any depth: its path, and whether the key is meant."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key), False
        if isinstance(value, dict):
            yield (*path, key), True
        yield from places(each, (*path, key))


def replaced(value: Any, path: Where, new: str, key: bool) -> Any:
    """A copy, with `new` at this place."""
    first, *rest = path

    def inner(each: Any) -> Any:
        return replaced(each, tuple(rest), new, key) if rest else new

    if isinstance(value, list):
        return [inner(each) if index == first else each for index, each in enumerate(value)]
    if key and not rest:
        return {new if name == first else name: each for name, each in value.items()}
    return {name: inner(each) if name == first else each for name, each in value.items()}


def write(folder: Path, name: str, content: Any) -> None:
    """As a node would, but with whatever it holds."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = content if isinstance(content, list) else [content]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def backups(folder: Path, payload: str) -> Iterator[Path]:
    """A backup with the payload in each of its fields: names, sizes, hashes, contents."""
    name, content = "manifest.json", b"{}"
    entry = [len(content), hashlib.sha256(content).hexdigest()]
    fields: list[tuple[dict[str, Any], bytes]] = [
        ({payload: entry}, content),
        ({f"checkpoints/1/{payload}": entry}, content),
        ({name: payload}, content),
        ({name: [payload, entry[1]]}, content),
        ({name: [entry[0], payload]}, content),
        ({name: entry}, payload.encode("utf-8", "replace")),
    ]
    for number, (listed, held) in enumerate(fields):
        file = folder / f"{number}.backup"
        file.write_bytes(json.dumps(listed).encode() + b"\n" + held)
        yield file


def requests(payload: str) -> Iterator[dict[str, Any]]:
    """What can be sent to a page, with the payload in each place of it."""
    own = {"authorization": f"Bearer {TOKEN}", "host": "127.0.0.1", "origin": "http://127.0.0.1"}
    posted = own | {"content-type": "application/json"}
    safe = payload.encode("ascii", "replace").decode().translate({n: " " for n in range(32)})
    for route in ("/api/state", "/api/samples", "/metrics"):
        yield {
            "method": "GET",
            "url": route,
            "params": {"serial": payload, "token": payload, payload: "1"},
            "headers": own,
        }
    for name in ("host", "origin", "authorization", "cookie", "referer", "user-agent", "x-forwarded-for", "range"):
        yield {"method": "GET", "url": "/api/state", "headers": own | {name: safe}}
    yield {"method": "GET", "url": f"/static/{httpx.QueryParams({'x': payload})}", "headers": own}
    for field_, value in (("token", payload), (payload, TOKEN)):
        yield {"method": "POST", "url": "/api/enter", "headers": posted, "content": json.dumps({field_: value})}
