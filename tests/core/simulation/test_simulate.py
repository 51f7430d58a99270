import json
from dataclasses import asdict
from pathlib import Path

import pytest
from PIL import Image

from swarm_node.common.errors import UserError
from swarm_node.common.files import plain
from swarm_node.settings import ModelConfig
from swarm_node.settings.simulation import FaultsConfig, SimulationConfig
from swarm_node.simulation import cell_pool
from swarm_node.simulation.arms import FinishedCell, all_cells, cell_config
from swarm_node.simulation.cell import summary
from swarm_node.simulation.engines.choice import engine_of
from swarm_node.simulation.folder import ReportFolder
from swarm_node.simulation.main import simulate
from swarm_node.simulation.plot_command import command
from swarm_node.telemetry.jsonlines import read_jsonlines
from tests.commands import python


def learnt(path: Path) -> dict:
    """A report without what depends on the machine."""
    return {key: value for key, value in json.loads(path.read_text()).items() if key != "cost"}


@pytest.mark.slow
def test_a_simulation_writes_its_files_and_shows_the_result(finished_once):
    folder, shown = finished_once
    files = {"report.json", "report.csv", "rewards.png", "manifest.json", "events.jsonl", "cells"}
    assert {file.name for file in folder.iterdir()} == files
    arms = json.loads((folder / "report.json").read_text())["arms"]
    for arm in arms.values():
        assert len(arm["cumulative_reward"]) == 2 and [len(seed) for seed in arm["rewards"]] == [
            5,
            5,
        ]
        assert sum(arm["rewards"][0]) == pytest.approx(arm["cumulative_reward"][0])
    alone, sharing = (arms[name]["rewards"] for name in ("8/0", "4/4"))
    # The same nodes and questions
    assert [seed[0] for seed in alone] == [seed[0] for seed in sharing]
    assert alone[0] != alone[1] and arms["4/4"]["mean"] > arms["8/0"]["mean"]
    assert "4/4" in shown and "±" in shown and str(folder / "report.json") in shown
    assert " ".join(shown.split()).endswith("add --evaluate-every N.")
    with Image.open(folder / "rewards.png") as picture:
        assert picture.width >= 800 and picture.height >= 400


def test_events_and_manifest_hold_every_round_the_configuration_and_seeds(finished):
    events = list(read_jsonlines(finished / "events.jsonl"))
    assert sum(event["event"] == "CellRound" for event in events) == 4 * 5
    assert events[0]["event"] == "RunStarted" and events[-1]["event"] == "RunFinished"
    manifest = json.loads((finished / "manifest.json").read_text())
    assert manifest["kind"] == "simulation" and manifest["seeds"] == [0, 1]
    assert manifest["config"]["nodes"] == 3 and manifest["versions"]["python"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_report_in_any_number_of_processes(
    configure, run, finished, tmp_path
):
    first = learnt(finished / "report.json")
    assert learnt(run(configure(out=tmp_path / "again", workers=1))) == first


@pytest.mark.slow
def test_a_crashed_cell_is_told_in_one_line_the_others_are_kept_and_resume_completes_them(
    configure, run, finished_once, tmp_path
):
    whole = learnt(finished_once[0] / "report.json")
    trouble = tmp_path / "trouble"
    trouble.touch()
    # The same model name in both runs: a resume must be of the same configuration.
    config = configure(model=ModelConfig(name=f"raises-for-sharers:{trouble}"))
    with pytest.raises(UserError) as error:
        run(config)
    assert "2 of 4 cells failed" in str(error.value) and "ValueError: no such weights" in str(
        error.value
    )
    assert "\n" not in str(error.value) and "--resume" in str(error.value)
    assert "4/4 seed 0  failed: ValueError: no such weights" in run.shown
    assert sorted(file.name for file in (config.out / "cells").glob("*.json")) == [
        "8_0-0.json",
        "8_0-1.json",
    ]
    assert "Traceback" in (config.out / "cells" / "4_4-0.log").read_text()
    assert not (config.out / "report.json").exists()

    trouble.unlink()
    path = run(config.model_copy(update={"resume": True}))
    assert learnt(path) == whole
    assert "continuing: 2 of 4 cells are finished" in run.shown
    assert not list((config.out / "cells").glob("*.log"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        ("dies", "killed by SIGKILL, perhaps for lack of memory"),
        ("exits", "status 3"),
        ("raises", "no such weights"),
    ],
)
def test_however_a_worker_ends_it_is_one_line(configure, run, trouble, message):
    with pytest.raises(UserError) as error:
        run(configure(arms=("8/0",), seeds=1, model=ModelConfig(name=trouble)))
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_mistake_of_the_user_that_a_worker_finds_stops_all(configure, run):
    config = configure(workers=1, model=ModelConfig(name="user-error"))
    with pytest.raises(UserError, match=r"^model folder nowhere: not found$"):
        run(config)
    assert not list((config.out / "cells").iterdir())


def test_what_a_library_prints_does_not_disturb(configure, run):
    run(configure(arms=("8/0",), seeds=1, model=ModelConfig(name="prints")))
    assert "noise" not in run.shown


@pytest.mark.slow
def test_an_interrupt_keeps_finished_cells_and_says_how_to_go_on(
    configure, run, finished_once, monkeypatch
):
    whole = learnt(finished_once[0] / "report.json")
    config = configure(workers=1)
    handle, rounds = cell_pool._handle, 0

    def interrupted(worker, line, emit):
        nonlocal rounds
        rounds += 1
        if rounds == 9:  # the second cell is under way: one cell is five rounds and an end
            raise KeyboardInterrupt
        return handle(worker, line, emit)

    monkeypatch.setattr(cell_pool, "_handle", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(config)
    assert "interrupted: 1 of 4 cells are finished and kept; continue with --resume" in run.shown
    assert not (config.out / "report.json").exists()

    monkeypatch.undo()
    assert learnt(run(configure(resume=True))) == whole


@pytest.mark.slow
def test_the_cell_of_a_half_written_or_strange_file_runs_again(configure, run, finished):
    whole = learnt(finished / "report.json")
    cells = finished / "cells"
    (cells / "8_0-0.json").write_text((cells / "8_0-0.json").read_text()[:100])
    (cells / "4_4-0.json").write_text((cells / "4_4-1.json").read_text())
    assert learnt(run(configure(resume=True))) == whole and "continuing: 2 of 4" in run.shown


def test_resuming_a_finished_run_runs_nothing_and_gives_the_same_report(configure, finished):
    whole = learnt(finished / "report.json")
    path = simulate(configure(resume=True), worker=("a-command-that-is-not-there",))
    assert learnt(path) == whole


@pytest.mark.slow
def test_resume_of_nothing_is_a_mistake_and_of_a_report_adds_more_seeds_and_arms(configure, run):
    config = configure(resume=True, arms=("8/0",), seeds=1)
    config.out.mkdir()
    with pytest.raises(UserError, match="holds no simulation to continue"):
        run(config)
    run(configure(arms=("8/0",), seeds=1))
    path = run(configure(resume=True, arms=("8/0", "4/4"), seeds=2))
    assert "continuing: 1 of 4" in run.shown
    assert list(json.loads(path.read_text())["arms"]) == ["8/0", "4/4"]


def test_resume_refuses_another_configuration_and_names_what_differs(configure, run, finished):
    with pytest.raises(UserError, match=r"rounds was 5, is 6") as error:
        run(configure(resume=True, rounds=6))
    assert "\n" not in str(error.value)


def test_a_finished_cell_of_an_arm_by_its_earlier_name_is_kept(configure, fakes):
    config = configure(arms=("4/4:sft",), seeds=1)
    (cell,) = all_cells(config)
    reports = {0: fakes.report(0, 0), 1: fakes.report(1, 0), 2: fakes.report(2, 0)}
    done = summary(cell_config(config, cell), cell, 0, reports, rejected={}, wall=1.0)
    kept = json.loads(json.dumps(plain(asdict(FinishedCell(cell, (done,), 1.0)))))
    kept["cell"]["arm"]["ways"] = ["sft"]
    (config.out / "cells").mkdir(parents=True)
    (config.out / "cells" / "4_4_sft-0.json").write_text(json.dumps(kept))
    (record,) = ReportFolder(config.out).load([cell], 1)
    assert record.cell == cell and str(record.cell.arm) == "4/4:imitation"


def test_resume_says_when_the_code_is_not_the_same(configure, run, finished):
    manifest = json.loads((finished / "manifest.json").read_text())
    (finished / "manifest.json").write_text(json.dumps({**manifest, "commit": "another"}))
    run(configure(resume=True))
    assert "warning: finished cells were made with other commit" in run.shown


def test_a_report_is_replaced_only_if_asked_and_nothing_else_is_removed(configure, run, finished):
    config = configure()
    with pytest.raises(UserError, match="--resume, or replace it with --overwrite"):
        run(config)
    (config.out / "notes.txt").write_text("mine")
    (config.out / "cells" / "mine.txt").write_text("mine")
    run(configure(overwrite=True, arms=("8/0",), seeds=1))
    assert (config.out / "notes.txt").read_text() == "mine" and (
        config.out / "cells" / "mine.txt"
    ).exists()
    assert [file.name for file in (config.out / "cells").glob("*.json")] == ["8_0-0.json"]
    events = list(read_jsonlines(config.out / "events.jsonl"))
    assert sum(event["event"] == "RunStarted" for event in events) == 1


@pytest.mark.parametrize("flag", ["resume", "overwrite"])
def test_a_folder_of_somebody_elses_files_is_left_alone(configure, run, flag):
    config = configure(**{flag: True})
    config.out.mkdir()
    (config.out / "report.json").write_text("{}")
    (config.out / "manifest.json").write_text('{"kind": "node"}')
    with pytest.raises(UserError, match="not a simulation report: choose another --out"):
        run(config)
    assert (config.out / "report.json").read_text() == "{}"


@pytest.mark.parametrize(
    "changes", [{"arms": ("8",)}, {"faults": FaultsConfig(die=("9@1",))}, {"node_tasks": (" , ",)}]
)
def test_mistakes_are_found_before_anything_is_written(configure, run, changes):
    config = configure(**changes)
    with pytest.raises(UserError):
        run(config)
    assert not config.out.exists()


def test_the_parent_process_imports_no_torch_and_no_matplotlib():
    code = (
        "import sys, swarm_node.simulation.main; sys.exit(bool({'torch', "
        "'matplotlib'} & {*sys.modules}))"
    )
    assert python("-c", code).returncode == 0


@pytest.mark.slow
def test_simulations_become_png_and_svg(tmp_path, capsys, finished):
    report = json.loads((finished / "report.json").read_text())
    (finished / "report.json").write_text(json.dumps({**report, "a key of a later version": 1}))
    command([str(finished), "--out", str(tmp_path / "figures")])
    files = sorted((tmp_path / "figures").iterdir())
    assert capsys.readouterr().out.split() == list(map(str, files))
    assert [file.name for file in files] == ["out-rewards.png", "out-rewards.svg"]
    for file in files:
        begins = b"\x89PNG" if file.suffix == ".png" else b"<?xml"
        assert file.read_bytes().startswith(begins) and file.stat().st_size > 5000
    command([str(finished)])
    assert (finished / "rewards.svg").exists()


@pytest.mark.parametrize("engine", ["memory", "ray"])
def test_a_simulation_in_memory_refuses_several_devices_for_a_node(engine: str) -> None:
    """They would do nothing, and nobody would notice."""
    for devices in ("2", "cpu,cpu"):
        config = SimulationConfig(engine=engine, model={"devices": devices})
        with pytest.raises(UserError, match=f"model.devices {devices} is for real nodes"):
            engine_of(config).check(config)


def test_real_nodes_and_a_simulation_on_one_device_take_the_option() -> None:
    for engine, devices in (("process", "cpu,cpu"), ("memory", "1"), ("memory", "auto")):
        config = SimulationConfig(engine=engine, model={"devices": devices})
        engine_of(config).check(config)
