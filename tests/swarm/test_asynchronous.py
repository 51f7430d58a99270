"""An asynchronous node with real processes: equal to the synchronous one where it must be, also
when parts die.
"""

import os
import signal
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
import torch

from lab.studies.guests import reports
from protocol.messages import Round
from swarm_node.node.asynchronous import AsynchronousNode, driving
from swarm_node.settings import AsynchronousConfig, LearningConfig
from swarm_node.training.checkpoint import all_checkpoints
from tests.commands import ENDS_SECONDS, read_until
from tests.models import GENERATION, make_node, trainer_of, weights_of
from tests.swarm.test_resume import curve, start
from tests.swarm.test_resume import ended as resumed
from tests.waiting import until

CHILD = (sys.executable, str(Path(__file__).parents[1] / "generator_child.py"))


@contextmanager
def asynchronous(node, tmp_path, warnings, **options):
    config = LearningConfig(
        generation=GENERATION,
        round=node.config,
        threads=1,
        asynchronous=AsynchronousConfig(enabled=True, **options),
    )
    policy = trainer_of(node).policy
    with driving(config, node, policy, tmp_path / "log", warnings.append, command=CHILD) as driver:
        assert isinstance(driver, AsynchronousNode)
        yield driver


@pytest.mark.slow
def test_without_staleness_it_is_the_synchronous_loop_bit_for_bit(tmp_path) -> None:
    torch.set_num_threads(1)
    synchronous, other = (make_node(external=0, num_iterations=2) for _ in range(2))
    expected = [synchronous.run_round(Round(now)) for now in range(5)]
    with asynchronous(other, tmp_path, [], max_staleness=0) as driver:
        reports = [driver.run_round(Round(now)) for now in range(5)]
    assert [r.reward_by_task for r in reports] == [r.reward_by_task for r in expected]
    assert [r.step for r in reports] == [r.step for r in expected]
    assert all(map(torch.equal, weights_of(synchronous), weights_of(other)))


@pytest.mark.slow
def test_a_generator_killed_in_the_middle_loses_no_round_and_the_bound_holds(tmp_path) -> None:
    node, warnings = make_node(external=0), []
    with asynchronous(node, tmp_path, warnings, max_staleness=2) as driver:
        reports = [driver.run_round(Round(now)) for now in range(4)]
        os.kill(driver._process.pid, signal.SIGKILL)
        reports += [driver.run_round(Round(now)) for now in range(4, 10)]
    assert [report.round for report in reports] == list(range(10))
    assert all(report.rollouts == 3 * GENERATION.num_generations for report in reports)
    assert all(0 <= (report.step.staleness or 0.0) <= 2 for report in reports)
    assert max(report.step.staleness or 0.0 for report in reports) > 0
    assert len(warnings) == 1 and "killed by SIGKILL" in warnings[0]
    overlaps = [report.overlap for report in reports]
    assert all(
        0 <= o.generating <= 1 and 0 <= o.training <= 1 and 0 <= o.waiting <= 2 for o in overlaps
    )


def processes_under(pid: int, module: str) -> list[psutil.Process]:
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):  # a child of the scoring process that has just ended
            found += [process] if module in process.cmdline() else []
    return found


def ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.slow
def test_a_node_whose_scorer_and_then_trainer_is_killed_trains_on_every_round_once(
    tmp_path,
) -> None:
    flags = ("--asynchronous.enabled", "--asynchronous.max-staleness", "2")
    node = start(tmp_path, *flags, "--max-rounds", "8")
    read_until(node, "round 1 ")
    (generator,) = processes_under(os.getpid(), "swarm_node.node.generator")
    for scoring in processes_under(generator.pid, "swarm_node.scoring.server"):
        with suppress(psutil.NoSuchProcess):  # a child that has ended
            scoring.kill()
    read_until(node, "checkpoint after 3 ")
    node.send_signal(signal.SIGKILL)
    node.communicate(timeout=ENDS_SECONDS)
    until(lambda: ended(generator), what="the end of the generator")
    code, output = resumed(tmp_path, *flags, "--max-rounds", "8")
    assert code == 0 and "resumed after" in output, output
    assert sorted(curve(tmp_path)) == list(range(8))
    for report in reports(tmp_path):
        assert report["rollouts"] == 4 * 8, "no group was lost with the scoring process"
        assert 0 <= (report["step"]["staleness"] or 0.0) <= 2
    assert all_checkpoints(tmp_path / "checkpoints")[-1].name == "00000008"
