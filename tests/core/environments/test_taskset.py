"""Task sets of verifiers: what is let in, what is refused and why, and what is trained on alone."""

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from protocol.identity import Identity
from protocol.messages import Episode, PeerId, Round
from swarm_node.common.errors import UserError
from swarm_node.environments import registry
from swarm_node.environments.split import TRAIN
from swarm_node.environments.split_environment import SplitEnvironment
from swarm_node.environments.taskset.compile import compiled
from swarm_node.environments.taskset.environment import (
    NAME,
    SOURCE,
    AloneScoring,
    Findings,
    TasksetEnvironment,
    compare,
    compare_scores,
)
from swarm_node.network.client import ALONE, RemoteNetwork
from swarm_node.network.process.messages import Rules
from swarm_node.rollouts.groups import Group
from swarm_node.scoring.client import ScoringClient
from swarm_node.settings import (
    EnvironmentConfig,
    LearningConfig,
    NetworkConfig,
    NodeConfig,
)
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.questions import TasksetConfig

pytestmark = pytest.mark.slow  # verifiers takes seconds to import

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "taskset" / "arithmetic.py"
MODULE = """
import random, socket
import verifiers.v1 as vf
__all__ = ["Some"]
class Data(vf.TaskData):
    answer: str = "1"
class One(vf.Task[Data]):
    {task}
class Some(vf.Taskset[One, vf.TasksetConfig]):
    def load(self):
        {load}
"""
REWARD_OF = "@vf.reward\n    async def "
REWARD = f"{REWARD_OF}right(self, trace): return float(trace.last_reply == self.data.answer)"
LOAD = "return [One(Data(prompt=f'Say {n}', answer=str(n)), self.config.task) for n in range(4)]"


def written(folder: Path, name: str, task: str = REWARD, load: str = LOAD) -> Path:
    """A task set in a file. Each test needs a name of its own, as modules are imported once."""
    file = folder / f"{name}.py"
    file.write_text(MODULE.format(task=task, load=load))
    return file


def facts(file: Path, out: Path, **options: object) -> Findings:
    return Findings.model_validate(
        compiled(TasksetConfig.model_validate({"name": str(file), **options}), out)
    )


def test_questions_have_hashes_a_part_is_held_out_and_options_change_the_version(
    tmp_path: Path,
) -> None:
    found = facts(EXAMPLE, tmp_path / "a", held_out=0.2)
    again = facts(EXAMPLE, tmp_path / "b", held_out=0.2)
    fewer = facts(EXAMPLE, tmp_path / "c", held_out=0.2, options='{"operators": "*"}')
    assert found == again and found.train + found.held_out == 300 == len(set(found.hashes))
    assert fewer.version != found.version and fewer.train + fewer.held_out == 100
    first = found.tries[0]
    assert first["scores"][first["texts"].index("0")] == 1.0  # 0 * 0
    compare("it", found, again)


def test_what_differs_between_two_processes_is_refused_with_the_reason(tmp_path: Path) -> None:
    chance = (
        "return [One(Data(prompt=f'Say {random.random()}'), self.config.task) for n in range(4)]"
    )
    file = written(tmp_path, "of_chance", load=chance)
    with pytest.raises(UserError, match="question 0 of two processes differs"):
        compare("it", facts(file, tmp_path / "a"), facts(file, tmp_path / "b"))
    file = written(
        tmp_path, "of_mood", task=f"{REWARD_OF}right(self, trace): return random.random()"
    )
    with pytest.raises(
        UserError, match=r"scores 0\.\d+ in one process and 0\.\d+ in another process"
    ):
        compare("it", facts(file, tmp_path / "a"), facts(file, tmp_path / "b"))


@pytest.mark.parametrize(
    ("name", "task", "load", "reason"),
    [
        (
            "of_runtime",
            f"{REWARD_OF}ran(self, trace, runtime):\n        await runtime.run(['ls'], {{}})",
            LOAD,
            "needs a runtime (ran calls runtime.run)",
        ),
        ("of_nothing", "pass", LOAD, "it has no reward"),
        ("of_boxes", f"NEEDS_CONTAINER = True\n    {REWARD}", LOAD, "need a container"),
        (
            "of_setup",
            "async def setup(self, runtime):\n        await runtime.run(['ls'], {})\n    " + REWARD,
            LOAD,
            "prepare a runtime (setup calls runtime.run)",
        ),
        (
            "of_tools",
            f"toolsets = classmethod(lambda cls, config: [1])\n    {REWARD}",
            LOAD,
            "its tools are not of vf.Toolset",
        ),
        ("of_mistakes", REWARD, "return 1 / 0", "ZeroDivisionError"),
        ("of_silence", REWARD, "return [One(Data(), self.config.task)]", "no question to train on"),
        (
            "of nothing to import",
            "import does_not_exist",
            LOAD,
            "cannot be loaded: ModuleNotFoundError",
        ),
    ],
)
def test_a_task_set_that_no_peer_could_replay_is_one_line(
    tmp_path: Path, name: str, task: str, load: str, reason: str
) -> None:
    with pytest.raises(UserError, match="task set") as raised:
        facts(written(tmp_path, name, task, load), tmp_path / "out")
    assert reason in str(raised.value) and "\n" not in str(raised.value)


def test_nothing_else_in_the_folder_of_a_task_set_hides_a_module_of_a_library(
    tmp_path: Path,
) -> None:
    """The process that reads it imports much later than it imports the file."""
    file = written(tmp_path, "among_strangers", REWARD, f"import tabnanny, helps\n        {LOAD}")
    (tmp_path / "helps.py").touch()
    (tmp_path / "tabnanny.py").write_text("raise OSError('a stranger runs')")
    assert "tabnanny" not in sys.modules, "of Python, and used by nobody else here"
    assert facts(file, tmp_path / "out").train


@pytest.mark.parametrize(
    ("name", "other"),
    [("statistics", "statistics"), ("nemo-gym", "verifiers.v1.tasksets.nemo_gym")],
)
def test_a_task_set_that_has_the_name_of_an_installed_module_is_one_line(
    tmp_path: Path, name: str, other: str
) -> None:
    with pytest.raises(UserError, match=f"{other} is another module, .* a name of its own"):
        facts(written(tmp_path, name), tmp_path / "out")


def test_what_another_model_scores_is_trained_on_alone(tmp_path: Path) -> None:
    file = written(tmp_path, "of_models")
    scored_by = '{"task": {"judges": [{"id": "reference"}]}}'
    with pytest.raises(UserError, match=r"another model scores it; set taskset\.alone"):
        facts(file, tmp_path / "a", options=scored_by)
    found = facts(file, tmp_path / "a", options=scored_by, alone=True)
    assert found.train + found.held_out == 4 and not found.tries  # no model was asked


@contextmanager
def listening() -> Iterator[int]:
    """A port that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(600)

        def take() -> None:
            try:
                while True:
                    server.accept()[0].close()
            except OSError:
                return

        threading.Thread(target=take, daemon=True).start()
        yield server.getsockname()[1]


def test_what_reaches_for_the_network_scores_alone_and_is_neither_published_nor_asked_by_others(
    tmp_path: Path,
) -> None:
    with listening() as port:
        reaching = (
            "@vf.reward\n    async def right(self, trace):\n        try:\n"
            f"            socket.create_connection(('127.0.0.1', {port}), 60).close()\n           "
            " return 1.0\n"
            "        except OSError:\n            return 0.0"
        )
        file = written(tmp_path, "of_networks", task=reaching)
        out = tmp_path / "a.json"
        found = facts(file, out)
        assert set(found.tries[0]["scores"]) == {1.0}
        alone, sandbox = (
            AloneScoring(out, found.version),
            ScoringClient(f"{SOURCE}?{out}", found.version, 60.0, 4096),
        )
        try:
            alone.prepare()  # starts beside the sandbox, which takes as long
            with pytest.raises(
                UserError, match=r"scores 1\.0 in one process and 0\.0 in the sandbox"
            ):
                compare_scores("it", found, sandbox)
            assert alone.ask([(NAME, TRAIN, 0, 0, None), (NAME, TRAIN, 0, 0, ("x", "y"))])[1] == (
                1.0,
                1.0,
            )
        finally:
            sandbox.close()
            alone.close()
    config = TasksetConfig(name=str(file), alone=True)
    with closing(TasksetEnvironment(["taskset/train"], config, EnvironmentConfig())) as environment:
        assert isinstance(environment, SplitEnvironment) and not environment.catalogue.environments
        asked = environment.sample(PeerId("12D3KooW"), Round(0), 1)[0]
        said = (Episode.of(text="1", ended=True), Episode.of(text="2", ended=True))
        identity = Identity.create()
        group = Group.of_text(identity.peer_id, Round(0), asked, said).message()
        rules = Rules(swarm="s", environments={})
        # Not started: nothing is sent
        network = RemoteNetwork(identity, tmp_path, NetworkConfig(), rules, 1, dict)
        network.publish([group], Round(0))
        assert network.rejections() == {ALONE: 1}


def test_the_folder_of_a_task_set_that_is_refused_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(UserError, match="needs a task set"):
        TasksetEnvironment(["taskset/train"], TasksetConfig(), EnvironmentConfig())
    assert not list(tmp_path.iterdir())


KEY = "sk-a-key-of-the-judge-0123456789"
JUDGE = f"""@vf.reward
    async def right(self, trace):
        import os
        return float(os.environ.get('JUDGE_KEY') == {KEY!r})"""
TALK = "import os; raise ValueError(os.environ['JUDGE_PLACE'])"


def asked_alone(file: Path, *variables: str) -> object:
    """The reply of the process that scores, for a completion."""
    config = TasksetConfig(name=str(file), alone=True, variables=variables)
    with closing(TasksetEnvironment(["taskset/train"], config, EnvironmentConfig())) as environment:
        (question,) = environment.sample(PeerId("12D3KooW"), Round(0), 1)
        return environment.score([(question, ("x",))])[0]


def test_a_judge_gets_the_key_that_is_named_and_no_other(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", KEY)
    monkeypatch.setenv("ANOTHER_KEY", KEY)
    file = written(tmp_path, "of_keys", task=JUDGE)
    assert asked_alone(file, "ANOTHER_KEY") == (0.0,)
    assert asked_alone(file, "JUDGE_KEY") == (1.0,)


def test_the_key_of_a_judge_is_never_printed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("JUDGE_PLACE", KEY)  # whose name does not say that it is a secret
    file = written(tmp_path, "of_talk", load=TALK)
    with pytest.raises(UserError, match="ValueError") as caught:
        asked_alone(file, "JUDGE_PLACE")
    assert KEY not in str(caught.value) and KEY not in repr(caught.value.__cause__)
    said = str(TasksetConfig(name=str(file), alone=True, variables=("JUDGE_PLACE",)))
    assert "JUDGE_PLACE" in said and KEY not in said


def test_the_generator_and_workers_get_what_is_handed_on(monkeypatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", KEY)
    config = LearningConfig.model_validate(
        {"taskset": {"name": "x", "alone": True, "variables": "JUDGE_KEY,NOT_SET"}}
    )
    assert registry.handed(config) == {"JUDGE_KEY": KEY}
    assert registry.handed(LearningConfig()) == {}


def test_a_home_hands_no_variable_on(tmp_path: Path, capsys) -> None:
    named = 'name = "x"\nalone = true\nvariables = ["HOME", "OPENAI_API_KEY"]\n'
    (tmp_path / "options.toml").write_text(f"[taskset]\n{named}")
    config = from_command_line(NodeConfig, ["--home", str(tmp_path)], "swarm-node run")
    assert config.taskset.variables == ()
    told = capsys.readouterr().err
    assert "cannot set" in told and "taskset.variables" in told
    flags = ["--home", str(tmp_path), "--taskset.name", "x", "--taskset.alone"]
    flags += ["--taskset.variables", "JUDGE_KEY"]
    config = from_command_line(NodeConfig, flags, "swarm-node run")
    assert config.taskset.variables == ("JUDGE_KEY",)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--taskset.variables A_KEY", r"add --taskset\.alone"),
        (f"--taskset.alone --taskset.variables OPENAI_API_KEY={KEY}", "not values"),
        (f"--taskset.alone --taskset.variables {KEY}", "not values"),
    ],
)
def test_variables_are_named_and_only_for_what_is_trained_on_alone(words: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        from_command_line(NodeConfig, words.split(), "swarm-node run")
    assert KEY not in str(caught.value)


def test_a_variable_that_is_not_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="names NOT_SET_AT_ALL, which is not set"):
        asked_alone(written(tmp_path, "of_none"), "NOT_SET_AT_ALL")
