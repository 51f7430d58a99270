"""Makes the pictures of docs/how-to/live_view.md: real nodes on terminals of tmux, as they stand
after some rounds.

.venv/bin/python docs/how-to/make_live_views.py            # four minutes on two cores; needs tmux
.venv/bin/python docs/how-to/make_live_views.py alone      # the pictures of this scene alone
"""

import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

HERE = Path(__file__).parent
PROGRAM = Path(sys.executable).with_name("swarm-node")
SMALL, WIDE = (80, 24), (200, 60)
STARTER = "--model.name rare --threads 1 --network.host 127.0.0.1 --swarm pictures"
TASKS = "--environment.tasks gcd/easy,lcm/easy,add_digits/few --validation.every 10"
PATIENCE = 400.0  # seconds for a node to come so far
# Without the font of rich's own form, which a browser would fetch from elsewhere.
FORM = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"><style>
.{unique_id}-matrix {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace;
font-size: {char_height}px; line-height: {line_height}px; }}
{styles}</style><defs><clipPath id="{unique_id}-clip-terminal">
<rect width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
{chrome}<g transform="translate({terminal_x}, {terminal_y})"
clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


class Screens:
    """Terminals of a tmux server of its own."""

    def __init__(self) -> None:
        self._name = f"pictures-{time.monotonic_ns()}"

    def tmux(self, *words: object) -> str:
        line = ["tmux", "-L", self._name, *map(str, words)]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout

    def start(self, name: str, size: tuple[int, int], options: str, before: str = "") -> None:
        """A node on a terminal of this size, which stays when it ends."""
        line = f"{before} {shlex.quote(str(PROGRAM))} run {options}; cat"
        self.tmux("new-session", "-d", "-x", size[0], "-y", size[1], "-s", name, line)

    def stop(self, name: str) -> None:
        """As with Ctrl-C."""
        self.tmux("send-keys", "-t", name, "C-c")

    def shown(self, name: str, *words: str) -> str:
        """The terminal when all of these words are on it."""
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            if all(word in self.tmux("capture-pane", "-p", "-t", name) for word in words):
                return self.tmux("capture-pane", "-p", "-e", "-t", name).rstrip("\n")
            time.sleep(0.5)
        raise SystemExit(
            f"{name} never showed {words}:\n{self.tmux('capture-pane', '-p', '-t', name)}"
        )

    def picture(self, name: str, as_: str, *words: str) -> None:
        """docs/how-to/live_view_NAME.svg of what is there then."""
        text = self.shown(name, *words)
        width = int(self.tmux("display-message", "-p", "-t", name, "#{pane_width}"))
        console = Console(record=True, width=width, file=StringIO(), force_terminal=True)
        console.print(Text.from_ansi(text), soft_wrap=True)
        svg = console.export_svg(
            title=as_.replace("_", " "), theme=DIMMED_MONOKAI, code_format=FORM, unique_id="t"
        )
        (HERE / f"live_view_{as_}.svg").write_text(
            "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"
        )

    def address(self, name: str) -> str:
        """Of the node there."""
        self.shown(name, "others reach this node at")
        said = self.tmux("capture-pane", "-p", "-J", "-S", "-100", "-t", name)
        return next(word for word in said.split() if word.startswith("/ip4/"))


def first_minute(screens: Screens, homes: Path) -> None:
    screens.start("first", SMALL, f"--home {homes}/first --swarm pictures")
    screens.picture("first", "first_minute", "mean of 3 rounds")


def alone(screens: Screens, homes: Path) -> None:
    screens.start(
        "offline", SMALL, f"{STARTER} {TASKS} --home {homes}/offline --network.no-enabled"
    )
    screens.picture("offline", "offline", "after 20 rounds")
    subprocess.run([PROGRAM, "pause", "--home", homes / "offline"], check=True)
    screens.picture("offline", "resting", "resting     paused")


def two_nodes(screens: Screens, homes: Path) -> None:
    screens.start("one", SMALL, f"{STARTER} {TASKS} --home {homes}/one", "NO_COLOR=1")
    second = f"{STARTER} {TASKS} --home {homes}/two --seed 1 --peers {screens.address('one')}"
    screens.start("two", WIDE, second)
    screens.picture("two", "wide", "learned", "mean of 20 rounds")
    screens.picture("one", "no_colour", "learned")
    screens.stop("two")
    screens.shown("two", "stopped after")
    screens.start("again", SMALL, second)
    screens.picture("again", "day_two", "held out", "checkpoint")


def two_data_sets(screens: Screens, homes: Path) -> None:
    for number in (2, 3):
        rows = "".join(f"{n} * {number} =,{n * number}\n" for n in range(1, 99))
        (homes / f"{number}.csv").write_text(f"prompt,answer\n{rows}")
    screens.start("mine", SMALL, f"{STARTER} --home {homes}/mine --dataset.file {homes}/2.csv")
    theirs = (
        f"{STARTER} --home {homes}/theirs --dataset.file {homes}/3.csv --peers "
        f"{screens.address('mine')}"
    )
    screens.start("theirs", SMALL, theirs)
    screens.picture("mine", "other_data_set", "other questions")


# One after the other: the machine is not shared by more than two nodes
SCENES = {
    "first_minute": first_minute,
    "alone": alone,
    "two_nodes": two_nodes,
    "two_data_sets": two_data_sets,
}


def play(scene: str) -> None:
    """Takes the pictures of a scene, and ends its nodes."""
    screens = Screens()
    homes = Path(tempfile.gettempdir(), "views")  # in the pictures
    homes.mkdir()
    try:
        SCENES[scene](screens, homes)
    finally:
        for name in screens.tmux("list-sessions", "-F", "#S").split():
            screens.stop(name)
        time.sleep(5)  # a node saves before it leaves
        screens.tmux("kill-server")
        shutil.rmtree(homes)


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=f"of {', '.join(SCENES)}")
    scenes = parser.parse_args().scenes or [*SCENES]
    if unknown := [scene for scene in scenes if scene not in SCENES]:
        parser.error(f"no scene is called {unknown[0]}; there are {', '.join(SCENES)}")
    for scene in scenes:
        play(scene)


if __name__ == "__main__":
    main()
