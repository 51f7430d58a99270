"""How the benchmark of two workers counts CPU time."""

import os

from lab.benchmarks.workers import busiest, cpu_seconds


def test_the_busiest_process_of_a_round_is_the_one_whose_cpu_time_grew_most() -> None:
    before = {1: 10.0, 2: 100.0, 3: 5.0}
    assert busiest(before, {1: 12.0, 2: 101.0, 4: 50.0}) == 2.0


def test_a_worker_that_has_gone_is_left_out_of_a_reading() -> None:
    gone = 2**22 + 1  # above every process number of Linux
    assert cpu_seconds([gone]).keys() == {os.getpid()}
