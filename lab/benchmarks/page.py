"""What a page of a node costs: time of a round beside it, memory, first paint of a long run, many
viewers.

    # docs/results/page.md; a quiet machine, ten minutes
    python -m lab.benchmarks.page --json
    python -m lab.benchmarks.page --quick --json

round     one node trains; windows with and without an open page alternate, in random order within a
          pair. An open page is a process beside the node, as with `run --page`, whose stream a
          viewer reads. The viewer's own browser is not counted: it is rarely on the node's machine
          (`--browser` puts Chromium there). The ratio is seconds of a round with a page over those
          without, with a 95 % interval over pairs.
history   100,000 rounds, repeated from those of the node: how long the page reads; then first paint
          and first curve in Chromium, and memory of the page's process (PSS: shared memory is
          divided among those that share it).
viewers   50 viewers of a public page, each fetching what its page asks for; the share of a core
          that its process takes.
"""

import argparse
import json
import math
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from lab.benchmarks import command
from lab.benchmarks.waiting import until
from swarm_node.simulation.report import ci95
from swarm_node.telemetry.jsonlines import read_jsonlines

NODE = ("--model.name", "rare", "--threads", "1", "--network.no-enabled")
GOALS = {"round": 1.03, "memory_mb": 80.0, "paint_seconds": 1.0, "viewers_share": 0.05}
READY = 120.0  # seconds for a process to be ready


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    pairs: int = 40
    window: float = 6.0  # seconds
    rounds: int = 100_000
    viewers: int = 50
    watched: float = 40.0  # seconds


QUICK = Size(pairs=3, window=2.0, rounds=3000, viewers=5, watched=5.0)


class Opened:
    """A running `swarm-node page`."""

    def __init__(self, process: "subprocess.Popen[str]", lines: int) -> None:
        assert process.stdout is not None
        self.process = process
        self.address = [process.stdout.readline().split(": ", 1)[1].strip() for _ in range(lines)][
            -1
        ]
        url = httpx.URL(self.address)
        self.base = f"http://{url.host}:{url.port}"
        self.headers = {"authorization": f"Bearer {url.fragment.removeprefix('token=')}"}

    def get(self, path: str) -> httpx.Response:
        """The response to a GET request with the page's token."""
        return httpx.get(self.base + path, headers=self.headers, timeout=60)

    def whole(self) -> bool:
        """Whether the page has read all earlier events of its home."""
        return not self.get("/api/state").json()["loading"]


@contextmanager
def started(*words: object) -> Iterator["subprocess.Popen[str]"]:
    """Runs `swarm-node` with these arguments, and terminates it at the end. Its standard input is a
    pipe held here.
    """
    line = [sys.executable, "-m", "swarm_node.commands.cli", *map(str, words)]
    process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def page(home: Path, *options: str) -> Iterator[Opened]:
    """A page as a node starts it beside itself: with a nice value, and ending when this process
    ends.
    """
    with started("page", home, "--listen", "127.0.0.1:0", "--with-parent", *options) as process:
        yield Opened(process, 2 if "--public" in options else 1)


@contextmanager
def viewer(opened: Opened) -> Iterator[None]:
    """A viewer that has fetched the state and reads the stream."""
    leaving = threading.Event()
    opened.get("/api/state")

    def read() -> None:
        with httpx.stream(
            "GET", f"{opened.base}/api/stream", headers=opened.headers, timeout=60
        ) as reply:
            for _ in reply.iter_bytes():
                if leaving.is_set():
                    return

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        leaving.set()  # `read` sees it soon: a stream sends twice a second while a node trains
        thread.join(10)


@contextmanager
def browser(opened: Opened) -> Iterator[None]:
    """A viewer in Chromium on this machine."""
    with chromium() as found:
        tab = found.new_page()
        tab.goto(opened.address)
        tab.locator("canvas").first.wait_for()
        yield


@contextmanager
def chromium() -> Iterator[Any]:
    """Debian's Chromium, driven by Playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        found = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        try:
            yield found
        finally:
            found.close()


def reports(home: Path) -> list[dict[str, Any]]:
    """RoundDone events so far."""
    file = home / "events.jsonl"
    return (
        [each for each in read_jsonlines(file) if each["event"] == "RoundDone"]
        if file.exists()
        else []
    )


def seconds_of_rounds(home: Path, began: float, ended: float) -> float:
    """Median seconds of the rounds within this time; a median, so that a hiccup of the machine does
    not count.
    """
    found: list[float] = [
        sum(each["report"]["seconds"].values())
        for each in reports(home)
        if began + sum(each["report"]["seconds"].values()) < each["time"] < ended
    ]
    return statistics.median(found)


def measure_round(home: Path, size: Size, with_browser: bool) -> dict[str, Any]:
    """The ratio of round times with and without an open page, with its 95 % interval, from pairs of
    windows.
    """
    chance, pairs = random.Random(0), []
    until(lambda: len(reports(home)) > 3, READY, "rounds of the node")
    for _ in range(size.pairs):
        pair: dict[bool, float] = {}
        for open_ in chance.sample([True, False], 2):
            with ExitStack() as stack:
                if open_:
                    opened = stack.enter_context(page(home))
                    until(opened.whole, READY, "reading")
                    stack.enter_context((browser if with_browser else viewer)(opened))
                began = time.time()
                time.sleep(size.window)
                pair[open_] = seconds_of_rounds(home, began, time.time())
        pairs.append(math.log(pair[True] / pair[False]))
        print(f"pair {len(pairs)}: {math.exp(pairs[-1]):.3f}", flush=True)
    middle, half = statistics.fmean(pairs), ci95(pairs) or math.inf
    bounds = [math.exp(middle - half), math.exp(middle + half)]
    return {
        "ratio": math.exp(middle),
        "interval": bounds,
        "pairs": len(pairs),
        "window_seconds": size.window,
    }


def long_home(folder: Path, like: Sequence[dict[str, Any]], rounds: int) -> Path:
    """A home with so many rounds, which repeat those of `like`."""
    folder.mkdir()
    with (folder / "events.jsonl").open("w") as file:
        for number in range(rounds):
            event = like[number % len(like)]
            file.write(json.dumps({**event, "report": {**event["report"], "round": number}}) + "\n")
    return folder


def measure_history(home: Path) -> dict[str, Any]:
    """Seconds to read this home, first paint and first curve (with Chromium), and memory of the
    page's process.
    """
    with page(home) as opened:
        found: dict[str, Any] = {"events_mb": (home / "events.jsonl").stat().st_size / 1e6}
        began = time.monotonic()
        until(opened.whole, 600, "reading")
        found["read_seconds"] = time.monotonic() - began
        if shutil.which("chromium"):
            found["when_read"] = painted(opened)
        found["memory_mb"] = psutil.Process(opened.process.pid).memory_full_info().pss / 1e6
    return found


def painted(opened: Opened) -> dict[str, float]:
    """Seconds from navigation to the first paint, and to the first curve."""
    with chromium() as found:
        tab = found.new_page()
        tab.goto(opened.address)
        tab.locator("canvas").first.wait_for()
        curve = tab.evaluate("performance.now()")
        paint = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return {"paint_seconds": paint / 1000, "curve_seconds": curve / 1000}


def measure_viewers(home: Path, size: Size) -> dict[str, Any]:
    """The share of a core of a public page, with and without viewers. They ask every ten seconds,
    as public.js does.
    """
    with page(home, "--public") as opened:
        until(opened.whole, READY, "reading")
        process = psutil.Process(opened.process.pid)
        alone = share(process, size.watched / 4)
        leaving = threading.Event()

        def look(delay: float) -> None:
            with httpx.Client(base_url=opened.base) as client:
                leaving.wait(delay)
                for path in (
                    "/",
                    *(
                        f"/static/{name}"
                        for name in ("app.css", "public.js", "charts.js", "tools.js")
                    ),
                ):
                    client.get(path)
                while not leaving.is_set():
                    client.get("/api/public").raise_for_status()
                    leaving.wait(10.0)

        threads = [
            threading.Thread(target=look, args=(10.0 * k / size.viewers,))
            for k in range(size.viewers)
        ]
        for thread in threads:
            thread.start()
        try:
            together = share(process, size.watched)
        finally:
            leaving.set()
            for thread in threads:
                thread.join()
    return {"viewers": size.viewers, "share": together, "share_without": alone}


def share(process: psutil.Process, seconds: float) -> float:
    """The share of a core that a process takes in the next `seconds`."""
    before = sum(process.cpu_times()[:2])
    time.sleep(seconds)
    return float((sum(process.cpu_times()[:2]) - before) / seconds)


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All parts, one after the other."""
    size = QUICK if options.quick else Size()
    home = folder / "home"
    with started("run", "--home", home, *NODE) as node:
        # An unread pipe would block it
        threading.Thread(target=lambda: list(node.stdout or ()), daemon=True).start()
        found = {
            "round": measure_round(home, size, options.browser),
            "viewers": measure_viewers(home, size),
        }
    found["history"] = measure_history(long_home(folder / "long", reports(home), size.rounds))
    return found


def main() -> None:
    parser = command.parser("lab.benchmarks.page", __doc__)
    command.add_quick(parser)
    parser.add_argument(
        "--browser", action="store_true", help="the viewer is a Chromium on this machine"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(options, Path(folder))
    beside, history, viewers = found["round"], found["history"], found["viewers"]
    low, high = beside["interval"]
    rows = [
        [
            "a round beside an open page",
            f"{beside['ratio']:.3f} ({low:.3f} to {high:.3f})",
            "below 1.03",
        ]
    ]
    rows.append(["reading its rounds", f"{history['read_seconds']:.1f} s", ""])
    if "when_read" in history:
        rows.append(["first paint", f"{history['when_read']['paint_seconds']:.2f} s", "below 1 s"])
        rows.append(["first curve", f"{history['when_read']['curve_seconds']:.2f} s", ""])
    rows.append(["memory of the page's process", f"{history['memory_mb']:.0f} MB", "below 80 MB"])
    rows.append(
        [
            f"{viewers['viewers']} viewers of a public page",
            f"{viewers['share']:.1%} of a core",
            "below 5 %",
        ]
    )
    rows.append(["the same page without viewers", f"{viewers['share_without']:.1%} of a core", ""])
    command.show(["what", "measured", "goal"], rows)
    command.finish(options, {"ratio": beside["ratio"], **found, "goals": GOALS})


if __name__ == "__main__":
    main()
