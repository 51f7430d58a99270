"""Where the runs of a study are done, by the options of its command; no run is done here."""

import argparse

import pytest

from lab.studies import places, runner
from swarm_node.common.errors import UserError
from swarm_node.extensions.simulation.folder import ReportFolder
from swarm_node.extensions.simulation.settings import SimulationConfig


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    places.add_options(parser)
    return parser.parse_args(words)


def test_without_options_a_run_stays_as_it_is_and_there_is_room_for_one_a_core():
    config = SimulationConfig(workers=1)
    place = places.place_of(options())
    assert place.of(config) is config and place.room == runner.usable_cores()


def test_what_was_begun_here_goes_on_over_a_cluster_and_not_over_real_nodes(tmp_path):
    config = SimulationConfig(out=tmp_path / "run")
    ReportFolder(config.out).prepare(config)
    resumed = config.model_copy(update={"resume": True, "engine": "ray"})
    assert ReportFolder(config.out).prepare(resumed) is None
    with pytest.raises(UserError, match="engine was 'memory', is 'process'"):
        ReportFolder(config.out).prepare(config.model_copy(update={"resume": True, "engine": "process"}))
