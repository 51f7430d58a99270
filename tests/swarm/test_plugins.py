"""What is plugged in from outside: the pages' examples, as files beside a configuration and as an
installed package.
"""

import json
import re
import shutil
import subprocess
import sys
import venv
from contextlib import closing
from pathlib import Path

import pytest

from protocol.messages import Call, PeerId, Round, Turn
from swarm_node.common.errors import UserError
from swarm_node.environments.plugged import PluggedKind
from swarm_node.environments.registry import build_environment
from swarm_node.rollouts.groups import Played, Skipped
from swarm_node.settings import NodeConfig
from swarm_node.settings.command_line import from_command_line
from tests.commands import ended, ended_well

ROOT = Path(__file__).parents[2]
# Example -> page
PAGES = {"sampler": "sampler", "layer": "plugins", "advantages": "plugins", "tracker": "plugins"}
PACKAGE = ROOT / "examples" / "plugin"
FEW = ["--generation.num-generations", "4", "--round.questions", "4", "--round.local-groups", "2"]
SMALL = ["--nodes", "2", "--arms", "2/2", "--workers", "1", *FEW]


def example(page: str, name: str) -> str:
    """The block of code of a page that is marked as this example."""
    block = rf'<!-- example: {name} -->\n```python(?: title="\w+\.py")?\n(.*?)```'
    found = re.search(block, (ROOT / "docs" / page).read_text(), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A configuration with an environment, a sampler, a layer, a rule and a tracker from the pages
    beside it.
    """
    (tmp_path / "my_task.py").write_text(example("tutorials/own_task.md", "environment"))
    for name in PAGES:
        (tmp_path / f"my_{name}.py").write_text(example(f"how-to/{PAGES[name]}.md", name))
    (tmp_path / "node.toml").write_text(
        'environment = {use = ["my_task:WordReversal"], scoring = "graded"}\n'
        'training = {scale_rewards = "my_advantages:against_the_best"}\n'
        'defence = {layers = ["my_layer:NoShouting"]}\n'
        'observers = ["my_tracker:Rewards"]\n'
        "round = {sampler = 'my_sampler:FreshestSampler', questions = 4}\n"
    )
    return tmp_path


def test_the_pages_show_the_files_of_the_package_and_each_is_short() -> None:
    package = PACKAGE / "word_reversal"
    assert (
        example("tutorials/own_task.md", "environment") == (package / "environment.py").read_text()
    )
    assert example("how-to/sampler.md", "sampler") == (package / "sampler.py").read_text()
    blocks = [example("tutorials/own_task.md", "environment")]
    blocks += [example("tutorials/own_task.md", "episode")]
    blocks += [example(f"how-to/{page}.md", name) for name, page in PAGES.items()]
    assert all(len(block.splitlines()) < 40 for block in blocks)


@pytest.mark.slow
def test_files_beside_a_configuration_train_a_node(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    ended_well(
        "run", folder / "node.toml", "--max-rounds", 3, "--network.no-enabled", "--home", home
    )
    events = [json.loads(line) for line in (home / "events.jsonl").read_text().splitlines()]
    rounds = [event["report"] for event in events if event["event"] == "RoundDone"]
    assert [set(report["reward_by_task"]) for report in rounds] == [
        {"words/long", "words/short"}
    ] * 3
    assert sum(report["step"]["optimizer_steps"] for report in rounds) > 0
    assert [line.split()[0] for line in (home / "rewards.txt").read_text().splitlines()] == [
        "0",
        "1",
        "2",
    ]


@pytest.mark.slow
def test_an_episode_of_several_turns_in_a_file_is_played_and_one_without_a_probe_refused(
    tmp_path: Path,
) -> None:
    file = tmp_path / "my_episode.py"
    file.write_text(example("tutorials/own_task.md", "episode"))
    config = NodeConfig.model_validate({"environment": {"use": [f"{file}:HiddenWord"]}})
    with closing(build_environment(config)) as environment:
        (question,) = environment.sample(PeerId("me"), Round(0), 1)
        asked = Turn(
            text="", calls=(Call(name="first", arguments="{}"), Call(name="first", arguments="[]"))
        )
        ((heard,),) = environment.play([(question, [[asked]])])
        assert isinstance(heard, Played) and environment.catalogue.turns(question) == 4
        ((first, wrong),) = heard.observations
        word = {"a": "apple", "b": "bread", "c": "chair"}[first]
        ((found,),) = environment.play([(question, [[asked, Turn(text=word, calls=())]])])
        assert isinstance(found, Played) and (found.done, found.score, wrong[:7]) == (
            True,
            1.0,
            "error: ",
        )
    file.write_text(file.read_text().replace("probe", "proof"))
    with pytest.raises(UserError, match="an episode of several turns has a probe"):
        PluggedKind(f"{file}:HiddenWord").facts  # noqa: B018


@pytest.mark.slow
def test_files_in_the_current_folder_are_plugged_in_from_python_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    use = {"use": ["my_task:WordReversal"]}
    config = NodeConfig.model_validate(
        {"environment": use, "round": {"sampler": "my_sampler:FreshestSampler"}}
    )
    assert config.round.sampler == f"{folder / 'my_sampler.py'}:FreshestSampler"
    with pytest.raises(UserError, match="did you mean 'uniform'"):
        NodeConfig.model_validate({"round": {"sampler": "unifrom"}})
    monkeypatch.chdir("/")  # as any child process may
    with closing(build_environment(config)) as environment:
        asked = environment.sample(PeerId("me"), Round(0), 1)
        (prompt,), (rewards,) = (
            environment.prompts(asked),
            environment.score([(asked[0], ["", "x"])]),
        )
    assert isinstance(prompt, str) and isinstance(rewards, tuple)
    source = folder / "my_task.py"
    source.write_text(source.read_text().replace("return right", "return 1 - right"))
    # Another environment of the same name and version
    with closing(build_environment(config)) as odd:
        assert odd.catalogue.knows(asked[0]) and odd.sample(PeerId("me"), Round(0), 1) != asked
        other = Skipped("other environment")
        assert (odd.prompts(asked), odd.score([(asked[0], ["", "x"])])) == ([other], [other])


@pytest.mark.slow
def test_check_and_eval_know_the_tasks_and_name_the_nearest_of_an_unknown_one(folder: Path) -> None:
    checked = ended("check", folder / "node.toml")
    assert "tasks: words/short, words/long" in checked.stdout
    told = ended(
        "model",
        "eval",
        "rare",
        "--use",
        f"{folder / 'my_task.py'}:WordReversal",
        "--questions",
        3,
        "--json",
    )
    assert [row["task"] for row in json.loads(told.stdout)["tasks"]] == [
        "words/short",
        "words/long",
    ]
    wrong = ended(
        "run", folder / "node.toml", "--environment.tasks", "words/shrt", "--home", folder / "home"
    )
    assert wrong.returncode == 2
    assert wrong.stderr.strip() == (
        "swarm-node: unknown task 'words/shrt': did you mean 'words/short'? words has short, long"
    )


@pytest.mark.slow
def test_an_installed_package_is_used_by_its_names(tmp_path: Path) -> None:
    """The package is in a virtual environment of its own, which also sees the packages of this
    one.
    """
    python = tmp_path / "venv" / "bin" / "python"
    outer = [place for place in sys.path if Path(place).name in ("site-packages", "dist-packages")]
    venv.create(tmp_path / "venv")
    (its_site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (its_site / "outer.pth").write_text("\n".join([str(ROOT), *outer]) + "\n")
    shutil.copytree(PACKAGE, tmp_path / "plugin")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
    ]
    subprocess.run([*pip, tmp_path / "plugin"], check=True)
    names = [
        "--environment.use",
        "word_reversal",
        "--environment.tasks",
        "words/short",
        "--round.sampler",
        "freshest",
    ]
    command = [
        python,
        "-m",
        "swarm_node.commands.cli",
        "simulate",
        *SMALL,
        *names,
        "--out",
        str(tmp_path / "out"),
    ]
    command += ["--rounds", "3", "--environment.scoring", "graded"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    arm = json.loads((tmp_path / "out" / "report.json").read_text())["arms"]["2/2"]
    assert arm["rollouts"] > 0


def test_a_class_from_outside_is_described_without_being_imported_here(folder: Path) -> None:
    kind = PluggedKind(f"{folder / 'my_task.py'}:WordReversal")
    assert (kind.name, kind.facts.version) == ("word_reversal", "1")
    assert kind.default_tasks == ["words/short", "words/long"]
    assert not [name for name in sys.modules if "my_task" in name]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("class WordReversal: pass", "has no attribute 'name'"),
        ("import nothing_of_that_name", "No module named 'nothing_of_that_name'"),
        ("raise SystemExit('no')", "no"),
        (
            "class WordReversal:\n name, version, tasks = 'a b', '1', {'d': ['c']}",
            "name: String should match pattern",
        ),
        (
            "class WordReversal:\n name, version, tasks = 'a', '1', {}",
            "tasks: Dictionary should have at least 1 item",
        ),
    ],
)
def test_an_environment_that_cannot_be_had_is_one_line(
    tmp_path: Path, code: str, words: str
) -> None:
    (tmp_path / "bad.py").write_text(code)
    with pytest.raises(UserError) as error:
        _ = PluggedKind(f"{tmp_path / 'bad.py'}:WordReversal").facts
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_plug_in_is_looked_for_beside_the_configuration_and_else_in_the_folder_one_is_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = from_command_line(NodeConfig, [str(folder / "node.toml")], "swarm-node run")
    assert beside.environment.use == (f"{folder / 'my_task.py'}:WordReversal",)
    assert beside.observers == (f"{folder / 'my_tracker.py'}:Rewards",)
    monkeypatch.chdir(folder)
    here = from_command_line(
        NodeConfig, ["--environment.use", "my_task:WordReversal"], "swarm-node run"
    )
    assert here.environment.use == beside.environment.use
