"""Both views of a node on a terminal, and the page that explains one of them."""

import io
import re
from pathlib import Path
from random import Random

import pytest
from rich.console import Console

from protocol.messages import PeerId, Round
from swarm_node.rollouts.groups import Generated, Overlap, Selection, StepReport
from swarm_node.telemetry.events import (
    CheckpointSaved,
    Chosen,
    Corrected,
    Notice,
    RoundDone,
    RunFinished,
    RunStarted,
    Trained,
    Validated,
    Warned,
)
from swarm_node.telemetry.learning import sparkline
from swarm_node.telemetry.terminal import LiveNode, PlainNode, node_terminal
from tests import groups
from tests.groups import scored

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "live_view.md"


def plain(*events):
    console = Console(file=io.StringIO(), width=60)
    sink = node_terminal(console)
    assert isinstance(sink, PlainNode)
    for event in events:
        sink.take(event)
    sink.close()
    return console.file.getvalue().splitlines()


def live(*events):
    """What the view shows after these events, and what scrolled by above it."""
    console = Console(file=io.StringIO(), width=110, force_terminal=True)
    sink = node_terminal(console)
    assert isinstance(sink, LiveNode)
    for event in events:
        sink.take(event)
    sink.close()
    shot = Console(file=io.StringIO(), width=110)
    shot.print(sink.render())
    return shot.file.getvalue(), console.file.getvalue()


def test_without_a_terminal_a_round_is_one_line_however_long(round_report):
    report = round_report(
        7, skipped={"prompt too long": 2, "scoring timeout": 3}, rejected={"bad signature": 1}
    )
    assert plain(RoundDone(report)) == [
        "round 7  reward 0.250  informative 50%  external 3  36.0 rollouts/s  skipped 3 scoring "
        "timeout, 2 prompt too long  rejected 1 bad signature"
    ]


def test_what_happens_between_rounds_is_a_line_too():
    assert plain(
        RunStarted("node X", "home", {"model": "rare"}),
        CheckpointSaved(20, "home/20"),
        Notice("[bold] is no markup here"),
        Warned("disk full"),
        RunFinished("stopped"),
    ) == [
        "node X in home, model rare", "checkpoint after 20 rounds: home/20", (
            "[bold] is no markup here"
        ),
        "warning: disk full", "stopped",
    ]  # fmt: skip


def test_the_live_view_shows_reward_speed_tasks_checkpoint_and_counts(round_report):
    view, _ = live(
        RunStarted("node X", "home", {"model": "rare"}),
        RoundDone(round_report(6, reward=0.75, skipped={"scoring timeout": 1})),
        RoundDone(
            round_report(7, skipped={"scoring timeout": 2}, rejected={"bad signature": 4}), peers=5
        ),
        CheckpointSaved(8, "home/8"),
    )
    for words in (
        "node X", "home   model rare", "7   2.0 s", "0.250   mean of 2 rounds 0.500",
        "36.0 rollouts/s   200 tokens/s", "2 local + 3 external",
        "63 external groups wait   5 peers", "3 scoring timeout", "4 bad signature",
        "after 8 rounds, home/8", "gcd/easy     0.25    0.25",
    ):  # fmt: skip
        assert words in view


def test_the_live_view_says_which_part_of_the_groups_came_from_others(round_report):
    external = scored(groups.group(PeerId("12D3KooWAlice")), "prompt", (0.0, 1.0))
    own = scored(groups.group(PeerId("me")), "prompt", (0.0, 1.0))
    generated = Generated(Round(0), [own], {}, {})
    selection = Selection(generated, [own], [external], [], {}, {}, Random(0))
    view, _ = live(RunStarted("node X", "home", {}), Trained(selection), RoundDone(round_report(7)))
    assert "63 external groups wait   1 of 2 groups so far were others'" in view


def test_the_whole_view_fits_a_small_terminal_and_shows_what_was_learned(round_report):
    tasks = [f"task_{number}/few" for number in range(14)]
    console = Console(file=io.StringIO(), width=80, height=24, force_terminal=True)
    view = LiveNode(console)
    for event in (
        RunStarted("node 12D3KooWGc8mNDbnVNLXtHkZTLSbgVGpqLyz3yLZGT5KvVSwHdPa",
            "/home/somebody/.swarm-node"),
        Validated(0, 0.2, 16, False, dict.fromkeys(tasks, 0.25), dict.fromkeys(tasks, 0.25)),
        RoundDone(round_report(7, reward_by_task=dict.fromkeys(tasks, 0.5), skipped={"a": 1},
            rejected={"b": 1})),
        CheckpointSaved(8, f"/home/somebody/{'long/' * 20}"),
        Validated(
            8, 0.9, 16, True, dict.fromkeys(tasks, 0.875), dict.fromkeys(tasks, 0.25),
            (Corrected("task_1/few", "second of 12, 44, 70, 31:", " 12\x1b[2J", " 44"),),
        ),
    ):  # fmt: skip
        view.take(event)
    view.close()
    shot = Console(file=io.StringIO(), width=80, height=24)
    shot.print(view.render())
    lines = shot.file.getvalue().splitlines()
    assert len(lines) <= 23 and max(map(len, lines)) == 80
    text = "\n".join(lines)
    for words in (
        "task_13/few  0.25    0.88",
        "more",
        "second of 12, 44, 70, 31:",
        "at first '12?[2J', now '44'",
    ):
        assert words in text
    assert "taught by" not in text


def test_the_live_view_stands_before_the_first_round_and_warnings_scroll_by_above_it(round_report):
    assert "the first ..." in live(RunStarted("node X", "home"))[0]
    assert "disk full" in live(RoundDone(round_report()), Warned("disk full"))[1]


@pytest.mark.parametrize(
    ("values", "line"),
    [([], ""), ([0.0, 0.0], "▁▁"), ([0.0, 0.5, 1.0], "▁▅█"), ([0.0] * 50 + [1.0] * 50, "▁▁██")],
)
def test_a_sparkline_goes_from_nothing_to_its_largest_and_shows_means_if_it_is_long(values, line):
    assert sparkline(values, 4) == line


def test_an_asynchronous_node_shows_staleness_and_how_busy_each_side_is(round_report):
    report = round_report(
        3,
        overlap=Overlap(wall=4.0, generating=0.97, training=0.4, waiting=1),
        step=StepReport(staleness=1.25),
    )
    words = "staleness 1.2  generator busy 97%  trainer busy 40%  waiting 1"
    assert words in plain(RoundDone(report))[0]
    # 72 in 4 s of wall time, whatever the phases add up to
    assert "18.0 rollouts/s" in plain(RoundDone(report))[0]
    view, _ = live(RoundDone(report))
    assert words in view
    assert "overlap" not in live(RoundDone(round_report()))[0]


def test_micro_batches_halved_for_lack_of_memory_are_told(round_report):
    report = round_report(3, step=StepReport(halvings=2))
    assert "out of device memory: micro-batches halved" in plain(RoundDone(report))[0]


def test_which_tasks_were_chosen_is_a_row_of_the_live_view_and_a_line_of_a_log(round_report):
    chosen = Chosen(12, {"gcd/easy": 0.25, "lcm/easy": 0.5}, {"products/easy": 1.0}, 3)
    told = "2 practised, 1 learned, 3 not tried yet; recently right: gcd/easy 25%, lcm/easy 50%"
    assert plain(chosen) == [f"tasks after 12 rounds: {told}"]
    view, above = live(chosen, RoundDone(round_report()))
    assert f"tasks       {told}" in view and "tasks after" not in above
    assert "  tasks  " not in live(RoundDone(round_report()))[0]


def test_the_page_has_every_row_of_the_live_view_in_its_order(round_report) -> None:
    done = RoundDone(
        round_report(overlap=Overlap(1.0, 0.5, 0.5, 1), skipped={"a": 1}, rejected={"b": 1}), 2
    )
    chosen = Chosen(1, {"gcd/easy": 0.25}, {"lcm/easy": 0.0}, 3)
    shown = re.findall(r"^│ ([a-z]+(?: [a-z]+)?)  ", live(chosen, done)[0], re.MULTILINE)
    explained = re.findall(r"^\| `([a-z ]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert shown[: len(explained)] == explained
    assert shown[len(explained) :] == ["in training"]  # the tasks
