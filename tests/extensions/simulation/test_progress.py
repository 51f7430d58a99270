import io

from rich.console import Console

from swarm_node.extensions.simulation.progress import (
    LiveSimulation,
    PlainSimulation,
    Progress,
    duration,
    simulation_terminal,
)
from swarm_node.telemetry.events import CellFailed, CellFinished, CellRound, CellStarted


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def done(number, reward=4.5, arm="8/0"):
    return CellRound(
        arm=arm, seed=0, round=number, nodes=2, reward=reward, node_rewards=(reward, reward), reward_by_task={},
        informative_share=0.5, external_groups=0.0, rollouts=144, generated_tokens=0, trained_tokens=0, mean_length=0.0,
        ended_share=1.0, entropy=0.0, grad_norm=0.0, clip_fraction=0.0, skipped={}, rejected={}, seconds={"round": 2.0},
    )  # fmt: skip


def test_time_left_is_that_of_all_cells_at_the_pace_so_far():
    clock = Clock()
    progress = Progress(cells=2, rounds=10, questions=9, clock=clock)
    progress.take(CellStarted("8/0", 0))
    assert progress.time_left() == "..."
    clock.now = 30.0
    for number in range(5):
        progress.take(done(number))
    assert progress.time_left() == "1:30"  # five rounds took 30 s, fifteen are left
    progress.take(CellFailed("8/0", 0, "boom"))
    assert progress.time_left() == "0:30"  # nothing of the failed cell is left: 30 s bought half of the work


def test_durations_read_like_a_clock():
    assert [duration(seconds) for seconds in (0, 61.4, 3600)] == ["0:00", "1:01", "1:00:00"]


def test_plain_output_is_a_line_per_tenth_of_a_cell(render):
    console = Console(file=io.StringIO(), width=100)
    sink = simulation_terminal(console, 1, 100, 9, Clock())
    assert isinstance(sink, PlainSimulation)
    sink.take(CellStarted("8/0", 0))
    for number in range(100):
        sink.take(done(number))
    sink.take(CellFinished("8/0", 0, 450.0))
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 12
    assert lines[1] == "8/0 seed 0  round 10/100  reward 0.500  72 rollouts/s  left 0:00"
    assert lines[-1] == "8/0 seed 0  done  cumulative reward 450.0"


def test_a_terminal_shows_arm_seed_round_reward_speed_and_time_left(render):
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    view = simulation_terminal(console, 2, 10, 9, Clock())
    assert isinstance(view, LiveSimulation)
    view.take(CellStarted("8/0", 0))
    view.take(CellStarted("4/4", 0))
    for number in range(5):
        view.take(done(number))
    shown = render(view.render())
    view.close()
    assert "8/0" in shown and "5/10" in shown and "0.500" in shown and "72" in shown
    assert "starting" in shown and "left 0:00" in shown
