"""Where the runs of a study are done, by the options of its command; no run is done here."""

import argparse

import pytest

from lab.studies import places, runner
from swarm_node.common.errors import UserError
from swarm_node.extensions.simulation.folder import ReportFolder
from swarm_node.extensions.simulation.workers import prefixes_of
from swarm_node.settings import SimulationConfig


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    places.add_options(parser)
    return parser.parse_args(words)


def test_without_options_a_run_stays_as_it_is_and_there_is_room_for_one_a_core():
    config = SimulationConfig(workers=1)
    with places.place_of(options()) as place:
        assert place.here and place.of(config) is config and place.room == runner.usable_cores()


def test_command_prefixes_take_turns_from_run_to_run():
    with places.place_of(options("--workers-by", "ssh one; ssh two", "--workers-python", "/x/python")) as place:
        first, second, third = (place.of(SimulationConfig(workers=1)) for _ in range(3))
    assert place.room == 2 and first.workers_python == "/x/python"
    assert [prefixes_of(each)[0] for each in (first, second, third)] == [["ssh", "one"], ["ssh", "two"], ["ssh", "one"]]


def test_what_no_simulation_takes_is_said_before_anything_begins():
    with pytest.raises(UserError, match="a prefix is empty"), places.place_of(options("--workers-by", "ssh one;;")):
        pass
    with (
        pytest.raises(UserError, match="not ray"),
        places.place_of(options("--engine", "ray", "--workers-by", "ssh one")),
    ):
        pass


def test_what_was_begun_here_goes_on_over_a_cluster_and_not_over_real_nodes(tmp_path):
    config = SimulationConfig(out=tmp_path / "run")
    ReportFolder(config.out).prepare(config)
    resumed = config.model_copy(update={"resume": True, "engine": "ray"})
    assert ReportFolder(config.out).prepare(resumed) is None
    with pytest.raises(UserError, match="engine was 'memory', is 'process'"):
        ReportFolder(config.out).prepare(config.model_copy(update={"resume": True, "engine": "process"}))
