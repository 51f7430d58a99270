"""Payloads in every field of a folder, a backup and a page's forms: does any of them run?

    python -m lab.fuzzing.folders --json     # a quarter of an hour on one core
    python -m lab.fuzzing.folders --some 20  # every twentieth case
    python -m lab.fuzzing.folders --holes    # mistakes that it has to find

A folder here is a home or a report that a stranger made: manifest, events, samples, report, state of a checkpoint, and
what its network process remembers; a backup; and what can be sent to a page. Every field, at any depth, and every
key, holds each of 60 payloads in turn. Then everything that reads it does so: the routes of a page, its doctor, status,
plots, a bundle, a card, a restore.

What runs is seen by an audit hook of the interpreter: a process whose command has a payload in it, code that is
compiled out of one, a module or a library that it names, an unpickling, a file that it names outside of the folder. A
file that the payloads would write is looked for, too. `--holes` puts in holes which have to be found, one of them the
doctor of old, which took tasks from the manifest.
"""

import asyncio
import io
import json
import os
import pickle
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
from starlette.types import ASGIApp

from lab.benchmarks import command
from swarm_node.commands import backup, bundle
from swarm_node.commands.status import ask
from swarm_node.common.errors import UserError
from swarm_node.extensions.hub import card
from swarm_node.extensions.page import app as page_app
from swarm_node.extensions.page.about import about
from swarm_node.extensions.page.guard import Guard
from swarm_node.extensions.page.metrics import exposition
from swarm_node.extensions.page.node import NodeWatch
from swarm_node.extensions.page.page import Page
from swarm_node.extensions.page.public import PublicView
from swarm_node.extensions.page.simulation import SimulationWatch
from swarm_node.extensions.page.start import watched_in
from swarm_node.extensions.simulation import plot_command as plot
from swarm_node.network.process import cache
from swarm_node.rollouts.reports import METRICS, PHASES
from swarm_node.settings import NodeConfig

MARK = "c4n4ry"  # in every payload, and nowhere else
TOKEN = "t" * 32
HOLES = {  # a hole -> the field that it reads
    "doctor": "environment.tasks.0",
    "shell": "commit",
    **dict.fromkeys(("eval", "import", "unpickle", "path"), "7.text"),
}
Where = tuple[str | int, ...]  # of a field: keys and places in lists


def payloads(place: Path) -> list[str]:
    """60, each of which would write a file with the mark in its name, load what has it, or open it."""
    out, evil = f"{place}/{MARK}-ran", f"{place}/{MARK}.py"
    python = f"__import__('pathlib').Path('{out}').touch()"
    pickled = pickle.dumps(_Run(f"touch {out}"), 0).decode("latin-1")
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
    flags = [flags[0] + f" {evil}:X", *flags[1:], f"--tracking.to={evil}:X", f"--defence.layers={evil}:X"]
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


class _Run:
    """What runs where it is unpickled."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self._text,)


@dataclass
class Watch:
    """What the interpreter did while a case was read."""

    place: Path  # where payloads write
    on: bool = False
    ran: list[str] = field(default_factory=list)

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Of sys.addaudithook, for good. A process that is started with a payload is not started."""
        if not self.on or event not in AUDITED:
            return
        self.on = False
        try:
            if event in ALWAYS or MARK in AUDITED[event](arguments):
                self.ran.append(f"{event}: {str(arguments)[:300]}")
                raise Ran(event)
        finally:
            self.on = True

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Whatever a reader raises is its own affair: other fuzzers count that."""
        self.on = True
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), suppress(Exception, SystemExit):
                yield
        finally:
            self.on = False
        for left in self.place.glob(f"{MARK}-*"):
            self.ran.append(f"wrote {left.name}")
            left.unlink()


class Ran(BaseException):
    """Something ran. No `except Exception` of what is tested hides it; it is counted anyway."""


def _all(arguments: tuple[Any, ...]) -> str:
    return repr(arguments)


def _file(arguments: tuple[Any, ...]) -> str:
    return os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes | os.PathLike) else ""


AUDITED: Mapping[str, Callable[[tuple[Any, ...]], str]] = {
    "subprocess.Popen": _all,
    "os.system": _all,
    "os.exec": _all,
    "os.posix_spawn": _all,
    "os.spawn": _all,
    "os.fork": _all,
    "pty.spawn": _all,
    "import": _all,
    "exec": lambda arguments: f"{arguments[0].co_filename} {arguments[0].co_consts} {arguments[0].co_names}",
    "compile": _all,
    "ctypes.dlopen": _all,
    "pickle.find_class": _all,
    "marshal.loads": _all,
    "open": _file,
    "os.mkdir": _file,
    "os.rename": _file,
    "os.symlink": _file,
    "socket.connect": _all,
    "socket.getaddrinfo": _all,
    "webbrowser.open": _all,
}
ALWAYS = {"os.fork", "pickle.find_class", "os.system", "webbrowser.open"}  # no reader of a folder does it at all


# What is read


def documents() -> dict[str, Any]:
    """An honest home and report, by file; a list is one of JSON lines."""
    figures: dict[str, Any] = dict.fromkeys(METRICS, 1)
    model = {"name": "rare", "revision": "", "lora": {"r": 0, "alpha": 16, "target_modules": ["q"]}}
    config = {
        "environment": {"tasks": ["gcd/easy"], "use": ["a:B"], "dataset": {"file": "x.csv"}, "puzzles": None},
        "model": model,
        "swarm": "public",
        "home": "home",
        "page": "127.0.0.1:1",
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


# Who reads it


def read_folder(folder: Path, app: ASGIApp | None = None) -> Iterator[Callable[[], Any]]:
    """Everything that reads a home or a report, one after the other."""
    node, simulation = NodeWatch(folder), SimulationWatch(folder, 2)
    page = Page(folder, node, lambda _: {}, monotonic)
    yield lambda: _drain(node)
    yield lambda: _drain(simulation)
    yield lambda: json.dumps([node.state(), simulation.state()], allow_nan=False)
    yield lambda: _samples(page)
    yield lambda: exposition(page, {})
    yield lambda: about(folder)
    yield lambda: watched_in(folder).read()
    yield lambda: PublicView(page, monotonic, frozenset({"gcd/easy"})).view()
    yield lambda: asyncio.run(_doctor(folder))
    yield lambda: ask(folder)
    yield lambda: cache.load(folder, "public")
    yield lambda: bundle.write_bundle(folder / "bundle.zip", NodeConfig(home=folder), None, ["line"])
    yield lambda: card.card(card.story(folder, 2, _model_of(folder)))
    yield lambda: plot._draw_report(folder, [])


def _samples(page: Page) -> list[dict[str, Any]]:
    page.samples.read()
    return page.samples.last()


def _drain(watched: Any) -> None:
    while watched.read():
        pass


async def _doctor(folder: Path) -> None:
    """Up to the start of the process: what the hook sees of it, and no more."""
    words = page_app.doctor_command(folder)
    sys.audit("subprocess.Popen", words[0], words, None, None)


def _model_of(folder: Path) -> Mapping[str, Any]:
    """As export takes it, but for its licence, which is looked for in the folder of a model that is named there: to
    read its card is allowed, to run anything is not."""
    state = json.loads((folder / "checkpoints" / "00000001" / "state.json").read_text())
    model: Mapping[str, Any] = state["extra"]["model"]
    return {**model, "name": "rare"}


def backups(folder: Path, payload: str) -> Iterator[Path]:
    """A backup with the payload in each of its fields: names, links, owners, headers, hashes."""
    for number, kind in enumerate(
        ("name", "linkname", "symlink", "uname", "pax", "hash", "hash key", "content", "fifo")
    ):
        file = folder / f"{number}.tar"
        with suppress(ValueError, UnicodeError), tarfile.open(file, "w", format=tarfile.PAX_FORMAT) as archive:
            content, listed = b"{}", {"manifest.json": "0" * 64}
            member = tarfile.TarInfo(payload if kind == "name" else "manifest.json")
            if kind in ("linkname", "symlink"):
                member.type, member.linkname = (tarfile.LNKTYPE if kind == "linkname" else tarfile.SYMTYPE), payload
            if kind == "fifo":
                member.type = tarfile.FIFOTYPE
            if kind == "uname":
                member.uname = member.gname = payload
            if kind == "pax":
                member.pax_headers = {"comment": payload, "path": payload, "GNU.sparse.name": payload}
            if kind == "content":
                content = payload.encode()
            if kind.startswith("hash"):
                listed = {payload: "0" * 64} if kind == "hash key" else {"manifest.json": payload}
            member.size = 0 if member.type != tarfile.REGTYPE else len(content)
            archive.addfile(member, io.BytesIO(content))
            last, text = tarfile.TarInfo("swarm-node-backup.json"), json.dumps(listed).encode()
            last.size = len(text)
            archive.addfile(last, io.BytesIO(text))
        yield file


def requests(payload: str) -> Iterator[dict[str, Any]]:
    """What can be sent to a page, with the payload in each place of it."""
    own = {"authorization": f"Bearer {TOKEN}", "host": "127.0.0.1", "origin": "http://127.0.0.1"}
    posted = own | {"content-type": "application/json"}
    safe = payload.encode("ascii", "replace").decode().translate({n: " " for n in range(32)})
    for route in ("/api/state", "/api/doctor", "/api/samples", "/api/about", "/metrics"):
        yield {
            "method": "GET",
            "url": route,
            "params": {"serial": payload, "token": payload, payload: "1"},
            "headers": own,
        }
    for name in ("host", "origin", "authorization", "cookie", "referer", "user-agent", "x-forwarded-for", "range"):
        yield {"method": "GET", "url": "/api/doctor", "headers": own | {name: safe}}
    yield {"method": "GET", "url": f"/static/{httpx.QueryParams({'x': payload})}", "headers": own}
    for field_, value in (("token", payload), (payload, TOKEN)):
        yield {"method": "POST", "url": "/api/enter", "headers": posted, "content": json.dumps({field_: value})}
    for field_ in ("kind", "number", "text", payload):
        body = {"kind": "draft", "number": 1, "text": "1", field_: payload}
        yield {"method": "POST", "url": "/api/press", "headers": posted, "content": json.dumps(body)}


async def sent(app: ASGIApp, asked: Mapping[str, Any]) -> int:
    """The status of the answer."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return (await client.request(**asked)).status_code


@contextmanager
def app_of(folder: Path) -> Iterator[list[ASGIApp]]:
    """Both pages, behind their guards; doctor is not started but looked at."""
    from swarm_node.extensions.contribute import browser
    from swarm_node.extensions.contribute.desk import Desk

    async def looked(self: page_app.Doctor) -> dict[str, Any]:
        words = page_app.doctor_command(folder)
        sys.audit("subprocess.Popen", words[0], words, None, None)
        return {}

    before = page_app.Doctor.findings
    page_app.Doctor.findings = looked  # type: ignore[method-assign]
    desk = Desk(4, lambda: 0)
    desk.close()  # a press is taken, and nobody waits for its score
    page = Page(folder, NodeWatch(folder), lambda _: {}, monotonic)
    try:
        yield [
            Guard(page_app.routes(page, None), TOKEN, "c"),
            Guard(browser.routes(desk), TOKEN, "c", writes=(browser.PRESS,)),
        ]
    finally:
        page_app.Doctor.findings = before  # type: ignore[method-assign]


# The corpus


@dataclass(frozen=True)
class Found:
    """Of a run: cases, and those in which something ran."""

    fields: int
    cases: int
    ran: list[str]


def corpus(some: int = 1, only: Sequence[str] = (), part: str = "") -> Found:
    """`some`: every so manieth case. `only`: documents, "backup" or "page"; all of them where it is empty. `part`: of
    the names of fields."""
    with tempfile.TemporaryDirectory(prefix="folders-") as name:
        place = Path(name, "out")
        place.mkdir()
        (place / f"{MARK}.py").write_text(
            f"from pathlib import Path\nPath({str(place)!r}, '{MARK}-ran').touch()\nclass X: ...\n"
        )
        watch = Watch(place)
        sys.addaudithook(watch.hook)
        counted, fields, ran = 0, 0, list[str]()
        for label, read in _cases(Path(name), place, only):
            if part not in label:
                continue
            fields += label.endswith(" 0")
            counted += 1
            if counted % some:
                continue
            _look(watch, read)
            ran += [f"{label}: {what}" for what in watch.ran]
            watch.ran.clear()
        return Found(fields, counted // some, ran)


def _look(watch: Watch, read: Callable[[], Iterator[Callable[[], Any]]]) -> None:
    for reader in read():
        with suppress(Ran), watch.looking():
            reader()


Case = tuple[str, Callable[[], Iterator[Callable[[], Any]]]]  # what it is, and who reads it


def _cases(folder: Path, place: Path, only: Sequence[str]) -> Iterator[Case]:
    texts, honest, home = payloads(place), documents(), folder / "home"
    for name, content in honest.items():
        write(home, name, content)
    for name in honest:
        if not only or name in only:
            yield from _of_document(home, name, honest[name], texts)
    if not only or "backup" in only:
        for number, payload in enumerate(texts):
            for kind, file in enumerate(backups(folder, payload)):
                yield f"backup {kind} {number}", partial(_restores, file, folder / "restored")
    if not only or "page" in only:
        with app_of(home) as apps:
            for number, payload in enumerate(texts):
                for kind, asked in enumerate(requests(payload)):
                    yield f"page {kind} {number}", partial(_sends, apps, asked)


def _of_document(home: Path, name: str, content: Any, texts: Sequence[str]) -> Iterator[Case]:
    for path, key in places(content):
        for number, payload in enumerate(texts):
            label = f"{name} {'.'.join(map(str, path))}{' (key)' if key else ''} {number}"
            yield label, partial(_reads, home, name, content, path, payload, key)
    write(home, name, content)


def _reads(home: Path, name: str, content: Any, path: Where, payload: str, key: bool) -> Iterator[Callable[[], Any]]:
    write(home, name, replaced(content, path, payload, key))
    (home / "bundle.zip").unlink(missing_ok=True)
    yield from read_folder(home)


def _restores(file: Path, to: Path) -> Iterator[Callable[[], Any]]:
    def restored() -> None:
        with suppress(UserError):
            backup.restore(file, to)

    yield restored


def _sends(apps: Sequence[ASGIApp], asked: Mapping[str, Any]) -> Iterator[Callable[[], Any]]:
    for each in apps:
        yield partial(_ask, each, asked)


def _ask(app: ASGIApp, asked: Mapping[str, Any]) -> int:
    return asyncio.run(sent(app, asked))


@contextmanager
def hole(kind: str) -> Iterator[None]:
    """A mistake that the corpus has to find."""
    command_before, title_before = page_app.doctor_command, NodeWatch._take

    def manifest(home: Path) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((home / "manifest.json").read_text())
        return found

    def of_old(home: Path) -> list[str]:
        return [
            *command_before(home),
            "--environment.tasks",
            *map(str, manifest(home)["config"]["environment"]["tasks"]),
        ]

    def shell(home: Path) -> list[str]:
        return ["/bin/sh", "-c", f"echo {manifest(home)['commit']}"]

    def taking(self: NodeWatch, record: Mapping[str, Any]) -> None:
        text = str(record.get("text", ""))
        if kind == "eval":
            with suppress(Exception):
                eval(text)
        elif kind == "import":
            with suppress(Exception):
                __import__(text)
        elif kind == "unpickle":
            with suppress(Exception):
                pickle.loads(text.encode("latin-1"))
        elif kind == "path":
            with suppress(Exception):
                Path(text).read_bytes()
        title_before(self, record)

    page_app.doctor_command = {"doctor": of_old, "shell": shell}.get(kind, command_before)
    NodeWatch._take = taking  # type: ignore[method-assign]
    try:
        yield
    finally:
        page_app.doctor_command = command_before
        NodeWatch._take = title_before  # type: ignore[method-assign]


def main() -> None:
    parser = command.parser("lab.fuzzing.folders", __doc__)
    parser.add_argument("--some", type=int, default=1, help="every so manieth case only")
    parser.add_argument("--holes", action="store_true", help="put each hole in, in turn, which has to be found")
    options = parser.parse_args()
    if options.holes:
        found = {kind: _with_hole(kind, options.some) for kind in HOLES}
        print(*(f"{kind}: {count} executions" for kind, count in found.items()), sep="\n")
        command.finish(options, found)
        sys.exit(not all(found.values()))
    done = corpus(options.some)
    print(*done.ran[:20], sep="\n")
    print(f"{done.cases} cases in {done.fields} fields, {len(done.ran)} executions")
    command.finish(options, {"cases": done.cases, "fields": done.fields, "executions": len(done.ran)})
    sys.exit(bool(done.ran))


def _with_hole(kind: str, some: int) -> int:
    with hole(kind):
        return len(corpus(some, ("manifest.json", "events.jsonl"), HOLES[kind]).ran)


if __name__ == "__main__":
    main()
