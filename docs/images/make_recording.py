"""Makes the animated picture at the top of README.md, and the pictures of docs/how-to/page.md.

    .venv/bin/python docs/images/make_recording.py record   # two real nodes; needs tmux, chromium
    .venv/bin/python docs/images/make_recording.py draw     # the picture, from what was recorded

`record` starts two nodes on this machine, which stand for two computers: each has a home folder
and a terminal of its own, and they speak over loopback. The first is started by `swarm-node run`,
the second by `swarm-node join` with the code that `swarm-node invite` printed. Both train the
pre-trained model on the default tasks. While they do, the script keeps what the terminals show, and
after some rounds it takes pictures of the pages of the first node and of a bootstrap node.

What the terminals showed is recording.json: their texts, each with its time and round. `draw` lets
chromium paint them, and makes a GIF of them and of the page. Except for the captions, everything
that is drawn was printed by a node.
"""

import argparse
import base64
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from protocol.versions import CURRENT

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAM = Path(sys.executable).with_name("swarm-node")
RECORDING, PICTURE = HERE / "recording.json", HERE / "two_nodes.gif"
PAGES = HERE.parent / "how-to"  # page_learning.png and others

COLUMNS, LINES = 80, 24  # of a terminal
ROUNDS = 20
LOOKS = 0.5  # seconds between two looks at the terminals
PATIENCE = 3600.0  # seconds for a node to come so far, on a busy machine
MINE, FRIENDS = "your computer", "your friend's computer"
# What keeps the nodes on this machine, and apart from other nodes there
QUIETLY = {
    "SWARM_NODE_NETWORK__HOST": "127.0.0.1",
    "SWARM_NODE_SWARM": "friends",
    "SWARM_NODE_THREADS": "1",
}

WIDTH, HEIGHT = 800, 560  # of the picture, in pixels
COLOURS = 64  # of a frame
STEP, LAST = 1800, 4000  # milliseconds for which a frame is shown; the last two longer
SHOWN = (  # terminals, and after how many rounds they are shown
    *((MINE, 0), (MINE, 1), (MINE, 3), (FRIENDS, 0), (FRIENDS, 2), (MINE, 6), (MINE, 8)),
    *((FRIENDS, 7), (MINE, 11), (MINE, 14), (FRIENDS, 14), (MINE, 17), (FRIENDS, 20), (MINE, 21)),
)
BODY = """<body style="margin:0;width:{width}px;height:{height}px;background:#161b22">
<p style="margin:0;font:600 19px/52px DejaVu Sans;color:#f0f3f6;text-align:center">{caption}</p>
<div style="margin:0 16px;padding:12px;border-radius:8px;background:#191919;height:476px">{content}
</div></body>"""
PAGE_SHOWN = (
    '<img style="height:476px;display:block;margin:auto" src="data:image/png;base64,{content}">'
)
CODE = '<pre style="margin:0;font:15.2px/19.6px DejaVu Sans Mono;color:{foreground}">{code}</pre>'


@dataclass
class Frame:
    """A terminal at one moment."""

    computer: str
    seconds: float  # since the first command
    round: int  # rounds that its node has ended
    text: str  # with the escapes of the terminal


@dataclass
class Recording:
    """What two nodes showed."""

    commit: str
    date: str
    frames: list[Frame] = field(default_factory=list)


class Terminals:
    """A terminal for each computer, in a tmux server of its own."""

    def __init__(self, homes: Mapping[str, Path], options: Sequence[str]) -> None:
        self._name = f"recording-{os.getpid()}"
        self._sessions = {computer: f"computer{number}" for number, computer in enumerate(homes)}
        for computer, home in homes.items():
            variables = variables_of(home, options) | {
                "PS1": "$ ",
                "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}",
            }
            words = [f"{name}={value}" for name, value in variables.items()]
            self.tmux(
                *("new-session", "-d", "-x", COLUMNS, "-y", LINES),
                *("-s", self._sessions[computer], "-c", home, "env", *words),
                *("bash", "--norc", "--noprofile"),
            )

    def tmux(self, *words: object) -> str:
        line = ["tmux", "-L", self._name, *map(str, words)]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout

    def type(self, computer: str, line: str) -> None:
        """Types this line, and Enter."""
        self.tmux("send-keys", "-t", self._sessions[computer], "-l", line)
        self.tmux("send-keys", "-t", self._sessions[computer], "Enter")

    def stop(self, computer: str) -> None:
        """As with Ctrl-C."""
        self.tmux("send-keys", "-t", self._sessions[computer], "C-c")

    def text(self, computer: str, *words: str) -> str:
        """What the terminal shows."""
        return self.tmux("capture-pane", "-p", *words, "-t", self._sessions[computer])

    def end(self) -> None:
        self.tmux("kill-server")


def variables_of(home: Path, options: Sequence[str]) -> dict[str, str]:
    """Environment variables of a computer whose user has this folder."""
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    own = {"HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "XDG_CACHE_HOME": cache}
    return own | QUIETLY | dict(option.split("=", 1) for option in options)


def rounds_of(home: Path) -> int:
    """Rounds that the node of this computer has ended."""
    file = home / ".swarm-node" / "events.jsonl"
    if not file.exists():
        return 0
    return len(re.findall('"event": ?"RoundDone"', file.read_text(encoding="utf-8")))


class Studio:
    """Both computers, and what is kept of them."""

    def __init__(self, folder: Path, options: Sequence[str]) -> None:
        self.homes = {MINE: folder / "you", FRIENDS: folder / "friend"}
        for home in self.homes.values():
            home.mkdir(parents=True)
        self._options = options
        self.terminals = Terminals(self.homes, options)
        self.recording = Recording(commit(), time.strftime("%Y-%m-%d"))
        self._began = time.monotonic()
        self._last: dict[str, str] = {}

    def look(self) -> None:
        """Keeps what each terminal shows, where it differs from what it showed before."""
        for computer, home in self.homes.items():
            text = self.terminals.text(computer, "-e").rstrip("\n")
            if text != self._last.get(computer):
                self._last[computer] = text
                seconds = round(time.monotonic() - self._began, 1)
                self.recording.frames.append(Frame(computer, seconds, rounds_of(home), text))

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Waits until it is done, and keeps what the terminals show meanwhile."""
        ends = time.monotonic() + PATIENCE
        while not done():
            self.look()
            if time.monotonic() > ends:
                raise SystemExit(f"never came: {what}\n{self.terminals.text(MINE)}")
            time.sleep(LOOKS)
        time.sleep(2 * LOOKS)
        self.look()

    def shows(self, computer: str, word: str) -> None:
        """Waits until the terminal shows this word."""
        self.until(lambda: word in self.terminals.text(computer), f"{word!r} on {computer}")

    def trained(self, computer: str, rounds: int) -> None:
        """Waits until the node of this computer has ended so many rounds."""
        self.until(lambda: rounds_of(self.homes[computer]) >= rounds, f"round {rounds}")

    def printed(self, computer: str, *words: object) -> str:
        """What a command prints in another terminal of this computer."""
        variables = {**os.environ, **variables_of(self.homes[computer], self._options)}
        line = [str(PROGRAM), *map(str, words)]
        done = subprocess.run(line, env=variables, check=True, capture_output=True, text=True)
        return done.stdout

    @contextmanager
    def serving(self, lines: int, home: Path, *words: object) -> Iterator[list[str]]:
        """A command that serves pages: the addresses of pages in the first lines it prints."""
        variables = {**os.environ, **variables_of(home, self._options)}
        line = [str(PROGRAM), *map(str, words)]
        process = subprocess.Popen(
            line, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        try:
            said: list[str] = []
            while len(said) < lines:
                said += re.findall(r"http://\S+", process.stdout.readline())
            yield said
        finally:
            process.terminate()
            process.communicate()


def whole(frames: Sequence[Frame]) -> list[Frame]:
    """The frames without those that were seen while the terminal was being drawn: of each round the
    longest. Before the first round lines only come, and all of them are kept.
    """
    found: dict[tuple[str, int], Frame] = {}
    first = [frame for frame in frames if frame.round == 0]
    for frame in frames:
        key = (frame.computer, frame.round)
        if frame.round and len(frame.text) >= len(found.get(key, Frame("", 0.0, 0, "")).text):
            found[key] = frame
    return sorted([*first, *found.values()], key=lambda frame: frame.seconds)


def commit() -> str:
    line = ["git", "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(line, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()


def record(folder: Path, options: Sequence[str], rounds: int) -> None:
    """Plays both computers, and writes what they showed."""
    studio = Studio(folder, options)
    terminals = studio.terminals
    gate = folder / "bootstrap"
    gate.mkdir()
    try:
        terminals.type(MINE, "swarm-node run")
        studio.trained(MINE, 1)
        terminals.type(FRIENDS, f"swarm-node join {studio.printed(MINE, 'invite').split()[-1]}")
        address = (studio.homes[MINE] / ".swarm-node" / "addresses").read_text().split()[0]
        bootstrap = ("bootstrap", "--peers", address, "--page", "127.0.0.1:0", "--page.public")
        with studio.serving(2, gate, *bootstrap) as (public, *_):
            studio.trained(FRIENDS, 1)
            studio.trained(MINE, rounds + 1)  # what it asks after so many rounds is in by then
            picture(public, {"page_public": ""}, folder)
        own = ("page", studio.homes[MINE] / ".swarm-node", "--listen", "127.0.0.1:0")
        with studio.serving(1, studio.homes[MINE], *own) as (page,):
            sections = {f"page_{name.lower()}": name for name in ("Learning", "Rollouts", "Swarm")}
            picture(page, sections, folder)
        terminals.stop(MINE)
        studio.shows(MINE, "stopped after")
        terminals.stop(FRIENDS)
        studio.shows(FRIENDS, "stopped after")
        for path in folder.glob("page_*.png"):
            shutil.copy(path, PAGES)
    finally:
        studio.recording.frames = whole(studio.recording.frames)
        RECORDING.write_text(json.dumps(asdict(studio.recording), indent=0) + "\n")
        terminals.end()


@contextmanager
def browser(width: int, height: int) -> Iterator[Any]:
    """A tab of Debian's chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        found = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        context = found.new_context(viewport={"width": width, "height": height})
        try:
            yield context.new_page()
        finally:
            found.close()


def picture(address: str, sections: Mapping[str, str], folder: Path) -> None:
    """A picture of each of these sections of a page, by the name of its file. It says in words
    with which version of the protocol it was made.
    """
    about = PngInfo()
    about.add_text("protocol", str(CURRENT.number))
    about.add_text("commit", commit())
    with browser(1280, 900) as tab:
        tab.goto(address)
        for name, section in sections.items():
            if section:
                tab.get_by_role("link", name=section, exact=True).click()
            tab.wait_for_timeout(3000)
            found = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
            reduced = found.quantize(colors=128, dither=Image.Dither.NONE)
            reduced.save(folder / f"{name}.png", pnginfo=about, optimize=True)


def painted(text: str) -> str:
    """The text of a terminal as HTML. A panel that fills it stands below the end of older lines,
    which are left out.
    """
    older, edge, panel = text.partition("╭─")
    if len(older.splitlines()) < 3 and edge:
        text = edge + panel
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text), soft_wrap=True)
    return console.export_html(theme=DIMMED_MONOKAI, code_format=CODE, inline_styles=True)


def scenes(recording: Recording) -> Iterator[tuple[str, str]]:
    """What is shown, as captions and HTML: terminals after some rounds, and then the page."""
    last = {(frame.computer, frame.round): frame for frame in recording.frames}
    starts = [frame for frame in recording.frames if frame.round == 0 and "$ " in frame.text]
    for computer, number in SHOWN:
        if number == 0:
            long = [frame for frame in starts if frame.computer == computer]
            frame = max(long, key=lambda found: len(found.text))
            yield f"{computer}: the start", painted(frame.text)
        else:
            many = f"after {number} round{'s' * (number > 1)}"
            yield f"{computer}: {many}", painted(last[computer, number].text)
    for name in ("page_learning", "page_swarm"):
        content = base64.b64encode((PAGES / f"{name}.png").read_bytes()).decode()
        yield "your computer: swarm-node page", PAGE_SHOWN.format(content=content)


def draw() -> None:
    """The animated picture."""
    content = json.loads(RECORDING.read_text())
    recording = Recording(
        content["commit"], content["date"], [Frame(**frame) for frame in content["frames"]]
    )
    images = []
    with browser(WIDTH, HEIGHT) as tab:
        for caption, html in scenes(recording):
            tab.set_content(BODY.format(width=WIDTH, height=HEIGHT, caption=caption, content=html))
            shot = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
            images.append(shot.quantize(colors=COLOURS, dither=Image.Dither.NONE))
    first, *others = images
    durations = [STEP] * (len(images) - 2) + [LAST] * 2
    first.save(
        PICTURE, save_all=True, append_images=others, duration=durations, loop=0, optimize=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("record", "draw"))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--option", action="append", default=[], help="NAME=VALUE, a variable")
    options = parser.parse_args()
    if options.part == "record":
        folder = Path(tempfile.gettempdir(), "home")  # in the pictures
        folder.mkdir()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to stop"))
        try:
            record(folder, options.option, options.rounds)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    else:
        draw()


if __name__ == "__main__":
    main()
