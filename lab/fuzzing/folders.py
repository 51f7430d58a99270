"""Payloads in every field of a folder, a backup and a page's forms: does any of them run?

    python -m lab.fuzzing.folders --json                # all of it, hours on one core
    python -m lab.fuzzing.folders --some 20             # every twentieth case
    python -m lab.fuzzing.folders --part fields         # a quarter of an hour
    python -m lab.fuzzing.folders --part commands       # every command on every file of a home
    python -m lab.fuzzing.folders --part commands --out runs/folders    # continues where it ended
    python -m lab.fuzzing.folders --part commands --whole   # each file with every payload
    python -m lab.fuzzing.folders --part commands --command check
    python -m lab.fuzzing.folders --holes               # mistakes that it has to find
    python -m lab.fuzzing.folders --planted command     # a new command with a hole: it is found
    python -m lab.fuzzing.folders --planted options     # a home sets every option: it is found

The input is a home or a report that a stranger made (manifest, events, samples, report, state of a
checkpoint, memory of its network process), a backup, or what can be sent to a page. Every field, at
any depth, and every key holds each of 60 payloads in turn. Then all readers read it: the routes of
a page, status, plots, a bundle, a card, a restore. And every command of the command table that
reads a home runs on homes in which each file that it looks at is something else (`homes.py`).

An audit hook of the interpreter sees what runs: a process whose command has a payload in it, code
that is compiled from one, a module or a library that it names, an unpickling, a file that it names
outside of the folder. Files that the payloads would write are looked for, too. `--holes` puts in
holes which have to be found, one of them a reader that starts `doctor` with the tasks of the
manifest, as the page once did.
"""

import asyncio
import json
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
from starlette.types import ASGIApp

from lab.benchmarks import command
from lab.fuzzing import homes
from lab.fuzzing.rows import Rows, Tally
from lab.fuzzing.stranger import (
    MARK,
    TOKEN,
    Where,
    backups,
    documents,
    payloads,
    places,
    replaced,
    requests,
    write,
)
from lab.fuzzing.watching import Ran, Watch
from swarm_node.commands import bundle
from swarm_node.commands.status import ask
from swarm_node.common.errors import UserError
from swarm_node.home import backup
from swarm_node.hub import card
from swarm_node.network.process.keeper import load_memory
from swarm_node.page import app as page_app
from swarm_node.page.asking import ACT
from swarm_node.page.guard import Guard
from swarm_node.page.metrics import exposition
from swarm_node.page.node import NodeWatch
from swarm_node.page.page import Page
from swarm_node.page.public import PublicView
from swarm_node.page.sight import PrivateSwarm, Sight
from swarm_node.settings import NodeConfig
from swarm_node.simulation import plot_command as plot

# What no reader may do with the text of a notice
READERS: Mapping[str, Callable[[str], object]] = {
    "eval": eval,
    "import": __import__,
    "unpickle": lambda text: pickle.loads(text.encode("latin-1")),
    "path": lambda text: Path(text).read_bytes(),
}
# What puts a hole in, and the command and file by which it has to be found
PLANTED: Mapping[str, tuple[Callable[[], None], str, str]] = {
    "command": (homes.plant, "planted", "recipe.txt"),
    "options": (homes.obey, "check", "options.toml: environment.use"),
}
HOLES = {  # a hole -> the field that it reads
    "doctor": "environment.tasks.0",
    "shell": "commit",
    **dict.fromkeys(READERS, "7.text"),
}


# The readers


def read_folder(folder: Path) -> Iterator[Callable[[], Any]]:
    """Everything that reads a home or a report, one after the other."""
    page = Page(folder, lambda _: {}, monotonic)
    yield lambda: _drain(page.node)
    yield lambda: json.dumps(page.node.state(), allow_nan=False)
    yield lambda: _samples(page)
    yield lambda: exposition(page, {})
    yield lambda: PublicView(page, monotonic, Sight({"gcd/easy"}, (), PrivateSwarm(folder))).view()
    yield lambda: ask(folder)
    yield lambda: load_memory(folder, "public")
    yield lambda: bundle.write_bundle(
        folder / "bundle.zip", NodeConfig(home=folder), None, ["line"]
    )
    yield lambda: card.card(card.story(folder, 2, _model_of(folder)))
    yield lambda: plot.report_of(folder)


def _samples(page: Page) -> list[dict[str, Any]]:
    page.samples.read()
    return page.samples.last()


def _drain(watched: Any) -> None:
    while watched.read():
        pass


def _model_of(folder: Path) -> Mapping[str, Any]:
    """The model as export takes it, except its name: export looks for a licence in the folder of
    that name. To read a model's card there is allowed, to run anything is not.
    """
    state = json.loads((folder / "checkpoints" / "00000001" / "state.json").read_text())
    model: Mapping[str, Any] = state["extra"]["model"]
    return {**model, "name": "rare"}


async def sent(app: ASGIApp, asked: Mapping[str, Any]) -> int:
    """Sends a request to the page. Returns the status of the answer."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return (await client.request(**asked)).status_code


def app_of(folder: Path) -> ASGIApp:
    """The page, behind its guard."""
    return Guard(
        page_app.routes(Page(folder, lambda _: {}, monotonic), None, folder),
        TOKEN,
        "c",
        writes=(ACT,),
    )


# The corpus


@dataclass(frozen=True)
class Found:
    """The figures of a run: fields, cases, and what ran."""

    fields: int
    cases: int
    ran: list[str]


def corpus(some: int = 1, only: Sequence[str] = (), part: str = "") -> Found:
    """Reads all cases. `some`: only every `some`-th case. `only`: documents, "backup" or "page";
    all if empty. `part`: only cases with this text in their labels.
    """
    with tempfile.TemporaryDirectory(prefix="folders-") as name:
        place = out_of(Path(name))
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


Case = tuple[str, Callable[[], Iterator[Callable[[], Any]]]]  # its label, and its readers


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
        app = app_of(home)
        for number, payload in enumerate(texts):
            for kind, asked in enumerate(requests(payload)):
                yield f"page {kind} {number}", partial(_sends, app, asked)


def _of_document(home: Path, name: str, content: Any, texts: Sequence[str]) -> Iterator[Case]:
    for path, key in places(content):
        for number, payload in enumerate(texts):
            label = f"{name} {'.'.join(map(str, path))}{' (key)' if key else ''} {number}"
            yield label, partial(_reads, home, name, content, path, payload, key)
    write(home, name, content)


def _reads(
    home: Path, name: str, content: Any, path: Where, payload: str, key: bool
) -> Iterator[Callable[[], Any]]:
    write(home, name, replaced(content, path, payload, key))
    (home / "bundle.zip").unlink(missing_ok=True)
    yield from read_folder(home)


def _restores(file: Path, to: Path) -> Iterator[Callable[[], Any]]:
    def restored() -> None:
        # A home that holds the last backup would refuse the next
        shutil.rmtree(to, ignore_errors=True)
        with suppress(UserError):
            backup.restore(file, to)

    yield restored


def _sends(app: ASGIApp, asked: Mapping[str, Any]) -> Iterator[Callable[[], Any]]:
    yield lambda: asyncio.run(sent(app, asked))


@contextmanager
def hole(kind: str) -> Iterator[None]:
    """Puts in a mistake that the corpus has to find."""
    take_before, draw_before = NodeWatch.take, plot.report_of

    def starting(folder: Path) -> Any:
        content: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
        words = {
            "doctor": ["doctor", "--environment.tasks", *content["config"]["environment"]["tasks"]],
            "shell": ["/bin/sh", "-c", f"echo {content['commit']}"],
        }[kind]
        # Only what the hook sees: no process starts
        sys.audit("subprocess.Popen", words[0], words, None, None)
        return draw_before(folder)

    def taking(self: NodeWatch, record: Mapping[str, Any]) -> None:
        with suppress(Exception):
            READERS[kind](str(record.get("text", "")))
        take_before(self, record)

    if kind in READERS:
        NodeWatch.take = taking  # type: ignore[method-assign]
    else:
        plot.report_of = starting
    try:
        yield
    finally:
        NodeWatch.take, plot.report_of = take_before, draw_before  # type: ignore[method-assign]


def main() -> None:
    parser = command.parser("lab.fuzzing.folders", __doc__)
    parser.add_argument("--some", type=int, default=1, help="every Nth case only")
    parser.add_argument("--part", choices=("fields", "commands"), help="only one of the two")
    parser.add_argument("--command", default="", help="of the second part, only this command")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="of the second part, what is done without a fault is kept here, and not done again",
    )
    parser.add_argument(
        "--whole", action="store_true", help="of the second part, every payload in every file"
    )
    parser.add_argument(
        "--planted",
        choices=PLANTED,
        help="only a hole: a command that is put into the table, or a home that sets every option",
    )
    parser.add_argument(
        "--holes", action="store_true", help="put each hole in, in turn, which has to be found"
    )
    options = parser.parse_args()
    if options.holes:
        found = {kind: _with_hole(kind, options.some) for kind in HOLES}
        print(*(f"{kind}: {count} executions" for kind, count in found.items()), sep="\n")
        command.finish(options, found)
        sys.exit(not all(found.values()))
    figures, faults = dict[str, int](), list[str]()
    if options.part != "fields" or options.planted:
        nothing = (lambda: None, options.command, "")
        plant, name, part = PLANTED.get(options.planted, nothing)
        plant()
        whole = options.whole or bool(options.planted)
        choice = homes.Choice(options.some, name, part, whole)
        tally = of_commands(choice, options.out)
        figures, faults = tally.figures, tally.faults
        print(f"at {', '.join(tally.commits)}")
    if options.part != "commands" and not options.planted:
        done = corpus(options.some)
        executions = figures.get("executions", 0) + len(done.ran)
        figures |= {"cases": done.cases, "fields": done.fields, "executions": executions}
        faults += done.ran
    print(*faults[:40], sep="\n")
    print(", ".join(f"{count} {name}" for name, count in figures.items()))
    command.finish(options, figures)
    sys.exit(bool(faults))


def of_commands(choice: homes.Choice, out: Path | None) -> Tally:
    """Every command that reads a home, on every file that it looks at: see `homes.py`."""
    rows = Rows(out / "commands.jsonl" if out else None)
    with tempfile.TemporaryDirectory(prefix="folders-") as name:
        place = out_of(Path(name))
        return homes.corpus(Path(name), payloads(place), rows, choice)


def out_of(folder: Path) -> Path:
    """The folder that payloads write to, with the file of Python that they name."""
    place = folder / "out"
    place.mkdir()
    (place / f"{MARK}.py").write_text(
        f"from pathlib import Path\nPath({str(place)!r}, '{MARK}-ran').touch()\nclass X: ...\n"
    )
    return place


def _with_hole(kind: str, some: int) -> int:
    with hole(kind):
        return len(corpus(some, ("manifest.json", "events.jsonl"), HOLES[kind]).ran)


if __name__ == "__main__":
    main()
