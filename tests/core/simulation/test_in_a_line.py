"""What a user of simulations gets wrong is told in a line, before anything runs."""

import pytest

import swarm_node
from swarm_node.common.errors import UserError
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.folder import ReportFolder


def test_a_wrong_option_of_a_script_is_one_line() -> None:
    with pytest.raises(UserError, match=r"SimulationConfig has no option 'nods'.*'nodes'"):
        swarm_node.SimulationConfig(nods=3)
    with pytest.raises(UserError, match="unknown key 'nods'"):
        swarm_node.simulate("starter", nods=3)
    with pytest.raises(UserError, match=r"give a SimulationConfig, .* not NodeConfig"):
        swarm_node.simulate(swarm_node.NodeConfig())


@pytest.mark.parametrize("kept", [(), ("cells",)])
def test_to_resume_nothing_is_refused_before_hours_of_work(kept, tmp_path) -> None:
    for name in kept:
        (tmp_path / "out" / name).mkdir(parents=True)
    config = SimulationConfig(out=tmp_path / "out", resume=True)
    with pytest.raises(UserError, match="holds no simulation to continue: name its folder"):
        ReportFolder(config.out).prepare(config)
    # One that was interrupted before its first cell was finished goes on
    fresh = config.model_copy(update={"resume": False})
    ReportFolder(config.out).prepare(fresh)
    assert ReportFolder(config.out).prepare(config) is None


def test_a_report_goes_on_with_the_same_model_in_another_spelling(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("m", "n"):
        (tmp_path / name).mkdir()
    config = SimulationConfig(out=tmp_path / "out", model={"name": "m"})

    def resumed(name: str) -> str | None:
        model = config.model.model_copy(update={"name": name})
        again = config.model_copy(update={"model": model, "resume": True})
        return ReportFolder(config.out).prepare(again)

    ReportFolder(config.out).prepare(config)
    assert resumed("./m/") is None and resumed(str(tmp_path / "m")) is None
    with pytest.raises(UserError, match=r"model\.name was .*, is 'n'"):
        resumed("n")
