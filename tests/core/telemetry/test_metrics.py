"""One record of metrics: every field reaches events and live view by itself."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import get_type_hints

from rich.console import Console

from protocol.messages import PeerId, Round
from swarm_node.commands.status import status_lines
from swarm_node.rollouts.groups import METRICS, PHASES, RoundReport, StepReport, combined, figures
from swarm_node.telemetry.events import RoundDone
from swarm_node.telemetry.jsonlines import JsonLines
from swarm_node.telemetry.recent import RecentRounds
from swarm_node.telemetry.terminal import LiveNode, plain_line


def report(number: int = 0, steps: int = 1) -> RoundReport:
    """A round whose metrics are all different numbers."""
    values = {name: index + number + 1 for index, name in enumerate(METRICS)}
    hints = {**get_type_hints(RoundReport), **get_type_hints(StepReport)}
    values = {name: value if hints[name] is int else float(value) for name, value in values.items()}
    own = {entry.name for entry in fields(StepReport)}
    step = StepReport(**{name: value for name, value in values.items() if name in own})
    return RoundReport(
        peer_id=PeerId("p"),
        round=Round(number),
        reward_by_task={"a/b": 0.5},
        skipped={},
        rejected={},
        step=step if steps else StepReport(),
        seconds=dict.fromkeys(PHASES, 0.1),
        **{name: value for name, value in values.items() if name not in own},
    )


def test_every_metric_is_in_the_events_of_a_node(tmp_path: Path) -> None:
    sink = JsonLines(tmp_path / "events.jsonl", lambda text: None)
    sink.take(RoundDone(report()))
    sink.close()
    told = json.loads((tmp_path / "events.jsonl").read_text())["report"]
    assert {**told, **told["step"]}.items() >= figures(report()).items()


def test_nodes_are_summed_or_averaged_and_those_without_a_step_say_nothing_of_steps() -> None:
    first, second = report(), report(2, steps=0)
    together = combined([first, second])
    assert together["rollouts"] == first.rollouts + second.rollouts
    assert (
        together["reward"] == (first.reward + second.reward) / 2
        and together["entropy"] == first.step.entropy
    )
    assert combined([]) == dict.fromkeys(METRICS, 0.0)


def test_what_a_round_has_no_figure_of_is_left_out_and_not_0() -> None:
    """A round whose groups were all lost, and that took no step."""
    nothing = {
        "reward": None,
        "reward_by_task": {},
        "informative_share": None,
        "mean_length": None,
        "rollouts": 0,
    }
    lost = RoundDone(replace(report(), step=StepReport(), **nothing))
    assert plain_line(lost) == "round 0  external 8 (11 heard)  0.0 rollouts/s"
    view, recent = LiveNode(Console(width=200, force_terminal=True)), RecentRounds(lambda: 0.0)
    for sink in (view, recent):
        sink.take(RoundDone(report()))
        sink.take(lost)
    view.close()
    with (console := Console(width=200)).capture() as capture:
        console.print(view.render())
    assert "reward      mean of 1 rounds 1.000" in capture.get()
    assert not [word for word in ("update", "entropy", "of local ones") if word in capture.get()]
    training = {**recent.facts(), "received": 0}
    assert training["reward"] is None
    told = "\n".join(status_lines({"healthy": True, "problems": [], "training": training}))
    assert "round 0 ended" in told and "reward" not in told
    own, others = 2 * report().local_informative, 2 * report().external_informative
    assert f"from {own} informative groups of its own and {others} of others" in told
    assert combined([lost.report, report()])["reward"] == 1.0


def test_the_live_view_shows_what_asks_to_be_shown() -> None:
    console = Console(width=200, force_terminal=True)
    view = LiveNode(console)
    view.take(RoundDone(report()))
    view.close()
    with console.capture() as capture:
        console.print(view.render())
    shown, values = capture.get(), figures(report())
    asking = [about.shown.format(values[name]) for name, about in METRICS.items() if about.shown]
    assert asking and all(words in shown for words in asking)
