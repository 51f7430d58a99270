"""The page about the live view explains all its figures."""

import io
import re
from pathlib import Path

from rich.console import Console

from swarm_node.rollouts.reports import Overlap
from swarm_node.telemetry.events import RoundDone
from swarm_node.telemetry.terminal import LiveNode

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "live_view.md"


def test_the_page_has_every_row_of_the_live_view_in_its_order(round_report) -> None:
    view = LiveNode(Console(file=io.StringIO(), width=200))
    view.take(RoundDone(round_report(overlap=Overlap(1.0, 0.5, 0.5, 1), skipped={"a": 1}, rejected={"b": 1}), 2))
    view.close()
    console = Console(file=io.StringIO(), width=200)
    console.print(view.render())
    shown = re.findall(r"^│ ([a-z]+(?: [a-z]+)?)  ", console.file.getvalue(), re.MULTILINE)
    explained = re.findall(r"^\| `([a-z ]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert shown[: len(explained)] == explained
    assert shown[len(explained) :] == ["in training"]  # the tasks
