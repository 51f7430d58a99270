"""What a node takes of its machine."""

import os
import subprocess
import sys

from swarm_node.extensions.page.machine import Machine, gpu_figures


def test_cores_are_cpu_seconds_by_the_time_between_two_looks_children_that_ended_included() -> None:
    times = iter([0.0, 0.0, 2.0])
    machine = Machine(lambda: next(times))
    first = machine.measure(os.getpid())
    assert first["memory"] > 1e6 and "cpu" not in first
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"], check=True)
    assert 0.2 < machine.measure(os.getpid())["cpu"] < 1.0


def test_where_no_node_runs_there_is_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    machine = Machine(lambda: 0.0)
    assert [machine.measure(pid) for pid in (None, ended.pid, -1, 10**30)] == [{}, {}, {}, {}]


def test_gpus_are_a_mean_and_a_sum_of_those_that_say_something() -> None:
    assert gpu_figures("50, 1000\n100, 24\n[N/A], [N/A]\n") == {"gpu": 0.75, "gpu_memory": 1024 * 2**20}
    assert gpu_figures("No devices were found\n") == {}
