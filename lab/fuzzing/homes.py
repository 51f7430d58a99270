"""Every command that reads a home, on homes that a stranger wrote. Part of `lab.fuzzing.folders`.

Nothing here lists commands or files. The commands are those of the command table whose options name
a home. The files are those that a real home holds after a run, and those that the commands look
for: each command is tried once on the real home, and every name below it that the command opens or
asks about is noted. So a new command that reads a new file is tried without being registered.

Then each command runs on homes in which one of its files is something else: damage of every kind, a
link, a pipe, or honest content with a payload in all of its texts. A case is a child by fork, which
has the libraries loaded. An audit hook sees what runs there; what the command's own child processes
run leaves a file. A traceback, an exception that leaves the command, and a command that does not
end count, too.

A command and a file make a row of results (rows.py). Of the 60 payloads a row takes every sixth,
beginning at another one for each row, so that every command meets every payload; `whole` takes all.
A file of options gets all of them in any case. A command that continues for ever is stopped as soon
as it has said that it is ready: by then it has read its home.
"""

import gc
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from lab.fuzzing.rows import Row, Rows, Tally
from lab.fuzzing.stranger import MARK
from lab.fuzzing.watching import Ran, Watch
from protocol.identity import Identity
from swarm_node.commands import table
from swarm_node.commands.cli import outcome
from swarm_node.common import loading
from swarm_node.common.command import Command, ListedCommand, Purpose
from swarm_node.settings import NodeConfig, Section, of_home
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.of_home import HOME_FILE
from swarm_node.settings.options import Option, options

SECONDS = 30.0  # after which a command that continues is told to stop
# What a command that continues says when it has read its home; then it is told to stop
READY: Mapping[str, str] = {
    "bootstrap": "network: ",
    "page": "page: http",
    "join": "round ",
    "contribute": "cannot be asked",
}
GRACE = 20.0  # that it has then
MOST_BYTES = 1 << 30  # that a case may write into one file
HOLE = 30 << 30  # bytes of a sparse file
# Options that make a command end soon, where it has them
SHORT = {
    "max_rounds": "3",
    "network.enabled": "false",
    "questions": "2",
    "validation.questions": "2",
    "environment.time_limit": "1",
    "threads": "1",
}
VARIABLES = {
    "SWARM_NODE_MODEL__NAME": "rare",
    "SWARM_NODE_NETWORK__HOST": "127.0.0.1",
    "SWARM_NODE_NETWORK__MDNS": "false",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
# Some commands need more than a home; without it they end before they read one
MORE: Mapping[str, Callable[[Path], Sequence[str]]] = {
    "contribute": lambda place: ("--api", "http://127.0.0.1:9/v1", "--model", "m"),
    "home backup": lambda place: (str(place / "new.backup"),),
    "home restore": lambda place: (str(place / "none.backup"),),
    "model export": lambda place: (str(place / "exported"),),
    "model push": lambda place: ("somebody/model",),
    "doctor": lambda place: ("--bundle", str(place / "bundle.zip")),
    "bootstrap": lambda place: ("--port", "0", "--host", "127.0.0.1", "--no-mdns"),
    "page": lambda place: ("--listen", "127.0.0.1:0"),
    "join": lambda place: (_code(),),
}


Writer = Callable[[Path], Any]  # writes something there


@dataclass(frozen=True, slots=True)
class Reader:
    """A command that reads a home."""

    name: str
    kind: type[BaseModel]
    flag: str  # that names the home

    def line(self, home: Path, place: Path) -> list[str]:
        """What is typed behind `swarm-node`."""
        more = MORE[self.name](place) if self.name in MORE else ()
        first = [] if not more or more[0].startswith("-") else [more[0]]
        known = options(self.kind)
        short = [f"{known[key].flags[0]}={value}" for key, value in SHORT.items() if key in known]
        return [*self.name.split(), *first, self.flag, str(home), *more[len(first) :], *short]


def readers() -> list[Reader]:
    """Every command of the table whose options name a home."""
    found, usual = [], NodeConfig().home
    for name, entry in table.COMMANDS.items():
        kind = table.load(entry).options
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            continue
        whole = kind
        named = [
            option
            for key, option in options(whole).items()
            if key == "home" or option.about.default == usual
        ]
        if named:
            found.append(Reader(name, whole, named[0].flags[0]))
    return found


def honest(home: Path) -> None:
    """Makes a home as a node leaves it: two rounds, with a network of its own."""
    line = [
        *("run", "--home", str(home), "--max-rounds", "2", "--round.questions", "2"),
        *("--environment.tasks", "next/few", "--checkpoint.every", "1", "--validation.every", "1"),
        *("--validation.questions", "2", "--threads", "1"),
    ]
    command = [sys.executable, "-P", "-m", "swarm_node", *line]
    subprocess.run(command, env={**os.environ, **VARIABLES}, check=True, capture_output=True)


# A case


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended in its child."""

    code: int
    ran: list[str]
    raised: str  # the exception that left the command; "" where none did
    opened: list[str]  # names below the home
    asked: list[str]  # names that the file system was asked about
    said: str
    hung: bool


def tried(reader: Reader, home: Path, place: Path, watch: Watch, note: bool = False) -> Ended:
    """Runs the command in a child. `note`: it notes which files of the home the command looks at,
    in place of watching it.
    """
    (place / "said").unlink(missing_ok=True)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _child(reader, home, place, watch, note, writing)
    os.close(writing)
    hung = _awaited(child, place / "said", READY.get(reader.name))
    with open(reading, "rb") as pipe:
        told = pipe.read()
    result: dict[str, Any] = json.loads(told) if told else dict(LOST)
    said = (place / "said").read_text(errors="replace")
    left = [f"wrote {each.name}" for each in place.glob(f"{MARK}-*") if each.name != SECRET]
    for each in left:
        (place / each.removeprefix("wrote ")).unlink()
    if (place / SECRET).read_text() != SECRET:
        left.append(f"changed {SECRET}")
        (place / SECRET).write_text(SECRET)
    if SECRET in said:
        left.append(f"said what is in {SECRET}")
    found = {**result, "ran": [*result["ran"], *left]}
    return Ended(**found, said=said, hung=hung)


# Of a child that could not tell what came of it
LOST: Mapping[str, Any] = {"code": -1, "ran": [], "raised": "", "opened": [], "asked": []}
SECRET = f"{MARK}-secret"  # name and content of a file of this user


def _child(reader: Reader, home: Path, place: Path, watch: Watch, note: bool, writing: int) -> None:
    """Runs the command, tells the parent what came of it, and ends."""
    os.setsid()
    said = os.open(place / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for number in (1, 2):
        os.dup2(said, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(place / "here")
    for name in os.environ.keys() - {"PATH", "HOME", "XDG_STATE_HOME"}:
        del os.environ[name]
    # A page executes itself again without all other variables: the child would be lost
    os.environ.update({} if reader.name == "page" else VARIABLES)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    opened, asked = set[str](), set[str]()
    code, raised = -1, ""
    try:
        with noting(home, opened, asked) if note else _watched(watch):
            code = outcome(reader.line(home, place))
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except (Ran, KeyboardInterrupt):
        code = 130
    except BaseException as error:  # noqa: BLE001  whatever leaves a command is a fault
        raised = f"{type(error).__name__}: {error}"[:300]
    watch.on = False
    told = {"code": code, "ran": watch.ran, "raised": raised}
    names = {"opened": sorted(opened), "asked": sorted(asked - opened)}
    with suppress(OSError):
        os.write(writing, json.dumps(told | names).encode())
    os._exit(0)


def _awaited(child: int, said: Path, ready: str | None) -> bool:
    """Waits for the child and all that it started; whether it had to be killed. It is told to stop
    when it has said that it is `ready`, or after `SECONDS`.
    """
    ends, told, hung = time.monotonic() + SECONDS, False, False
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(0.02)
        is_ready = not told and ready is not None and ready in said.read_text(errors="replace")
        if time.monotonic() < ends and not is_ready:
            continue
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL if told else signal.SIGINT)
        hung, told, ends = told, True, time.monotonic() + GRACE
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    return hung


@contextmanager
def _watched(watch: Watch) -> Iterator[None]:
    watch.ran.clear()
    watch.on = True
    try:
        yield
    finally:
        watch.on = False


@contextmanager
def noting(home: Path, opened: set[str], asked: set[str]) -> Iterator[None]:
    """Notes every name below the home that this process opens, and that it asks the file system
    about. It goes on to the end of the process.
    """

    def note(path: Any, names: set[str]) -> None:
        if isinstance(path, str | bytes | os.PathLike):
            whole = os.path.abspath(os.fsdecode(path))
            if whole.startswith(f"{home}/"):
                names.add(whole.removeprefix(f"{home}/"))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir", "os.rename", "os.remove"):
            note(arguments[0], opened)

    def asking(ask: Callable[..., Any]) -> Callable[..., Any]:
        def noted(path: Any, *rest: Any, **more: Any) -> Any:
            note(path, asked)
            return ask(path, *rest, **more)

        return noted

    sys.addaudithook(hook)
    for name in ("stat", "lstat", "access"):
        setattr(os, name, asking(getattr(os, name)))
    yield


# What a stranger puts into the place of a file


def damage(place: Path) -> Mapping[str, Writer]:
    """What writes something else than an honest file there, by name."""
    texts = {
        "nothing": "", "brackets": "[" * 100_000, "braces": '{"a":' * 100_000, "null": "null",
        "a list": "[]", "an object": "{}", "infinite": '{"next": 1e999, "format": 1e999}',
        "digits": "9" * 5000, "zeros": "\0" * 5000, "half a character": '{"a": "\\ud800"}\n',
        "dots": "a." * 50_000 + "b = 1", "lines": "[\n" * 50_000, "escapes": "\x1b]0;x\x07\x1b[2J",
        "an empty event": '{"event": "RoundDone"}\n', "an odd event": '{"event": "Validated"}\n',
    }  # fmt: skip
    found: dict[str, Writer] = {name: _writer(text.encode()) for name, text in texts.items()}

    def sparse(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(HOLE)

    return found | {
        "no text": lambda path: path.write_bytes(b"\xff\xfe" * 1000),
        "a hole": sparse,
        "a link": lambda path: path.symlink_to(place / SECRET),
        "a link to itself": lambda path: path.symlink_to(path),
        "a pipe": os.mkfifo,
        "a folder": lambda path: path.mkdir(),
    }


def with_payload(kind: type[BaseModel], name: str, content: bytes | None, payload: str) -> bytes:
    """The content of this file with the payload in place of each of its texts. A file that no home
    has is the payload alone. Of a TOML file, every option of the command has it.
    """
    if name.endswith(".toml"):
        lines = (_row(option, payload) for option in options(kind).values())
        return "".join(lines).encode()
    if content is None:
        return payload.encode("utf-8", "replace")
    try:
        rows = [json.loads(line) for line in content.splitlines()]
    except ValueError:
        try:
            rows = [json.loads(content)]
        except ValueError:
            return payload.encode("utf-8", "replace")
    return b"".join(json.dumps(_replaced(row, payload)).encode() + b"\n" for row in rows)


def _row(option: Option, payload: str) -> str:
    """A line of TOML. Numbers and switches are left as they are: a payload would only be refused,
    and nothing behind it tried.
    """
    texts = of_home.granted(option) or option.is_a(str) or option.is_list
    if not texts or option.is_switch:
        return ""
    value = json.dumps([payload] if option.is_list else payload)
    return f"{option.key} = {value}\n"


def _replaced(value: Any, payload: str) -> Any:
    if isinstance(value, dict):
        # What decides how the rest is read stays
        kept = {"event", "kind", "format", "model_type", "class", "type"}
        changed = {key: _replaced(each, payload) for key, each in value.items()}
        return changed | {key: value[key] for key in kept & value.keys()}
    if isinstance(value, list):
        return [_replaced(each, payload) for each in value]
    return payload if isinstance(value, str) else value


def set_in_place(path: Path, write: Writer) -> None:
    """Puts something into the place of a file, whatever is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    write(path)


# The corpus


@dataclass(frozen=True, slots=True)
class Choice:
    """Which cases are tried: every `some`-th, of the command of this name alone, with this text in
    their labels alone; `whole`: each file with every payload.
    """

    some: int = 1
    command: str = ""
    part: str = ""
    whole: bool = False


def corpus(folder: Path, texts: Sequence[str], rows: Rows, choice: Choice) -> Tally:
    """Tries every command on every file that it looks at, except rows that are done. `texts`:
    payloads, which lead to `folder / "out"`.
    """
    place, real, home = folder / "out", folder / "real", folder / "home"
    (place / "here").mkdir(exist_ok=True)
    (place / SECRET).write_text(SECRET)
    # Not the record of the user who runs it
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    honest(real)
    watch = Watch(place)
    _load(real)
    sys.addaudithook(watch.hook)
    number = 0
    # The first of the table take longest: they come last
    for turn, reader in reversed([*enumerate(readers())]):
        if choice.command not in ("", reader.name):
            continue
        files = _files_of(reader, real, home, place, watch)
        # "" stands for all files at once
        for position, name in enumerate([*sorted(files), ""]):
            if rows.has(reader.name, name):
                continue
            began, row = time.monotonic(), Row(reader.name, name)
            few = texts if choice.whole else _few(texts, turn + position)
            for label, write in _changes(reader, name, files, real, place, texts, few):
                number += choice.part in label
                if choice.part not in label or number % choice.some:
                    continue
                _copy(real, home, place)
                for changed in [name] if name else sorted(files):
                    with suppress(OSError):
                        set_in_place(home / changed, write)
                _count(row, f"{reader.name}: {label}", tried(reader, home, place, watch))
            row.seconds = round(time.monotonic() - began, 1)
            rows.add(row)
    return Tally([row for row in rows.all() if choice.command in ("", row.command)])


def _few(texts: Sequence[str], turn: int) -> Sequence[str]:
    return texts[turn % EVERY :: EVERY]


EVERY = 6  # of the payloads in one row


def _files_of(
    reader: Reader, real: Path, home: Path, place: Path, watch: Watch
) -> Mapping[str, bool]:
    """The files of a real home, and those besides, that this command looks at; for each, whether
    what is in it can matter. Of a file that is there and is not opened, only its kind can.
    """
    _copy(real, home, place)
    ended = tried(reader, home, place, watch, note=True)
    matters = dict.fromkeys(ended.opened, True)
    matters |= {name: not (real / name).exists() for name in ended.asked}
    return {
        name: content
        for name, content in matters.items()
        if not (real / name).is_dir() and not PASSING.search(name)
    }


# Names of files that are only there while something is written, and of folders of sockets
PASSING = re.compile(r"\.part$|(^|/)\.partial-|swarm-node-\w{8}(/|$)|^\.identity|\.link$")
KINDS = ("a link", "a pipe", "a folder")  # of damage, that can matter to who only asks for a file


def _changes(
    reader: Reader,
    name: str,
    files: Mapping[str, bool],
    real: Path,
    place: Path,
    texts: Sequence[str],
    few: Sequence[str],
) -> Iterator[tuple[str, Writer]]:
    """The label of each change that is made to this file, or to all, and what makes it. A file of
    options gets all payloads, another one a few.
    """
    matters = files.get(name, True)
    for kind, write in damage(place).items():
        if matters or kind in KINDS:
            yield f"{name or 'all files'}: {kind}", write
    if not name or not matters:
        return
    content = (real / name).read_bytes() if (real / name).is_file() else None
    has_options = name.endswith(".toml")
    for payload in texts if has_options else few:
        whole = with_payload(reader.kind, name, content, payload)
        yield f"{name}: {texts.index(payload)}", _writer(whole)
    if has_options:
        yield from _one_by_one(reader, name, place, texts)


def _one_by_one(
    reader: Reader, name: str, place: Path, texts: Sequence[str]
) -> Iterator[tuple[str, Writer]]:
    """Files that set a single option to a place of code: beside others that are refused as
    mistakes, nothing would be loaded.
    """
    places = [text for text in texts if text.startswith((str(place), f"{MARK}:"))]
    for key, option in options(reader.kind).items():
        for number, text in enumerate(places if of_home.granted(option) else ()):
            row = _row(option, text).encode()
            yield f"{name}: {key} {number}", _writer(row)


def _writer(content: bytes) -> Writer:
    return lambda path: path.write_bytes(content)


def _count(row: Row, label: str, ended: Ended) -> None:
    row.inputs += 1
    row.ran += [f"{label}: {what}" for what in ended.ran]
    if ended.raised:
        row.raised.append(f"{label}: {ended.raised}")
    elif "Traceback" in ended.said:
        row.tracebacks.append(f"{label}: {ended.said.strip().splitlines()[-1][:200]}")
    if ended.hung:
        row.hung.append(label)


def _copy(real: Path, home: Path, place: Path) -> None:
    """A fresh copy of the real home, and none of what a case before left beside it."""
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(real, home, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
    for name in ("new.backup", "bundle.zip"):
        (place / name).unlink(missing_ok=True)
    shutil.rmtree(place / "exported", ignore_errors=True)


def _load(real: Path) -> None:
    """Imports what the commands import when they run, and opens a model, once for all children: its
    library compiles a thousand regular expressions for the first one.
    """
    os.environ.update(VARIABLES)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    import swarm_node.node.build
    import swarm_node.policy.loading  # noqa: F401

    torch.set_num_threads(1)
    model = real / "checkpoints" / "00000002"
    AutoModelForCausalLM.from_pretrained(model)
    AutoTokenizer.from_pretrained(model)
    # A child need not look at all of this again, nor copy its pages
    gc.collect()
    gc.freeze()


def _code() -> str:
    """An invitation to a swarm that nobody is in."""
    from swarm_node.environments.basics import source
    from swarm_node.swarm.code import Invitation, RequiredEnvironment, encode

    address = f"/ip4/192.0.2.1/tcp/31330/p2p/{Identity.from_seed_bytes(bytes(32)).peer_id}"
    asked = RequiredEnvironment("basics", source.version, ("next/few",))
    return encode(Invitation((address,), "friends", (asked,), 0))


# A command that the corpus has to find by itself


class PlantedConfig(Section):
    """A command with a hole: it runs what a file of the home names."""

    home: Path = NodeConfig().home
    """Its home."""


def _planted(argv: list[str]) -> None:
    config = from_command_line(PlantedConfig, argv, "swarm-node planted")
    recipe = config.home / "recipe.txt"
    if recipe.exists():
        loading.load(recipe.read_text())


PLANTED = Command(PlantedConfig, "", _planted)


def obey() -> None:
    """Lets a home set every option, as it once could."""

    def everything(kind: type[BaseModel], values: Mapping[str, Any]) -> of_home.OfHome:
        known = options(kind)
        return of_home.OfHome({key: value for key, value in values.items() if key in known})

    of_home.sorted_out = everything


def plant() -> None:
    """Puts the command into the table."""
    entry = ListedCommand("lab.fuzzing.homes:PLANTED", "", "a command with a hole", Purpose.TRY)
    table.COMMANDS = {**table.COMMANDS, "planted": entry}


assert HOME_FILE.endswith(".toml"), "the corpus fills TOML files with every option"
