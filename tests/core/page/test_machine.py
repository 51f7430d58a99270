"""The cores, memory and GPUs that a node uses."""

from swarm_node.page.page import Machine, gpu_figures


def test_cores_are_cpu_seconds_by_the_time_between_two_looks() -> None:
    times = iter([0.0, 0.0, 2.0, 4.0])
    machine = Machine(lambda: next(times))
    assert machine.measure({"cpu_seconds": 7, "memory_bytes": 5e6}) == {"memory": 5e6}
    assert machine.measure({"cpu_seconds": 10.0, "memory_bytes": 6e6}) == {
        "memory": 6e6,
        "cpu": 1.5,
    }
    # The node was started again
    assert machine.measure({"cpu_seconds": 1.0, "memory_bytes": 6e6}) == {"memory": 6e6}


def test_where_no_node_says_it_there_is_nothing() -> None:
    machine = Machine(lambda: 0.0)
    strange = (
        {"cpu_seconds": "x", "memory_bytes": 1},
        {"cpu_seconds": float("nan"), "memory_bytes": 1},
        [],
        "used",
    )
    assert [machine.measure(used) for used in (None, {}, *strange)] == [{}] * 6


def test_gpus_are_a_mean_and_a_sum_of_those_that_say_something() -> None:
    assert gpu_figures("50, 1000\n100, 24\n[N/A], [N/A]\n") == {
        "gpu": 0.75,
        "gpu_memory": 1024 * 2**20,
    }
    assert gpu_figures("No devices were found\n") == {}
