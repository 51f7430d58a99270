import io

from rich.console import Console

from swarm_node.simulation.progress import SimulationTerminal
from swarm_node.telemetry.simulated import CellFailed, CellFinished, CellRound, CellStarted


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def done(number, **changes):
    return CellRound(
        arm="8/0", seed=0, round=number, nodes=2, reward=4.5, node_rewards=(4.5, 4.5),
        reward_by_task={}, skipped={}, rejected={}, seconds={"round": 2.0},
        metrics={"rollouts": 144}, **changes,
    )  # fmt: skip


def shown(cells, rounds, clock):
    console = Console(file=io.StringIO(), width=120)
    return SimulationTerminal(console, cells, rounds, 9, clock), console.file


def test_time_left_is_that_of_all_cells_at_the_pace_so_far():
    clock = Clock()
    terminal, _ = shown(2, 10, clock)
    terminal.take(CellStarted("8/0", 0))
    assert terminal.time_left() == "..."
    clock.now = 30.0
    for number in range(5):
        terminal.take(done(number))
    assert terminal.time_left() == "1:30"  # five rounds took 30 s, fifteen are left
    terminal.take(CellFailed("8/0", 0, "boom"))
    # The rest of the failed cell counts as done: half of the work took 30 s
    assert terminal.time_left() == "0:30"


def test_a_cell_has_a_line_per_tenth_and_one_for_each_evaluation():
    terminal, file = shown(1, 100, Clock())
    terminal.take(CellStarted("8/0", 0))
    for number in range(100):
        terminal.take(done(number, accuracy=({"gcd/tiny": 0.25}, None) if number == 50 else ()))
    terminal.take(CellFinished("8/0", 0, 450.0))
    lines = file.getvalue().splitlines()
    assert (
        len(lines) == 13
        and lines[1] == "8/0 seed 0  round 10/100  reward 0.500  72 rollouts/s  left 0:00"
    )
    assert "round 51/100  reward 0.500  held out 0.250" in lines[6]
    assert lines[-1] == "8/0 seed 0  done  cumulative reward 450.0"
