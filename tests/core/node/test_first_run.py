"""What a first run trains on a machine with a graphics card: which model, how, and what becomes of
it at the next start. The driver's program is a script, the hub is one on this machine, and its
models have the names of the real ones and tiny weights.
"""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from swarm_node.common import card_memory
from swarm_node.common.cards import Build
from swarm_node.environments.registry import candidates
from swarm_node.node.defaults import CHAT_TASKS, resolved, suited
from swarm_node.policy import by_card, named
from swarm_node.policy.by_card import CHOICES, QWEN2_5_1_5B, THINKING, getting, looking
from swarm_node.settings import NodeConfig
from tests.first_models import CARDS, card, hub_of_tiny_models
from tests.hub_stand_in import Hub

ROOT = Path(__file__).parents[3]
CUDA = Build("2.13.0", "13.0")
# Size of a card in GB -> what a first run trains there: model, questions, completions, tokens
WANTED = {
    6: ("Qwen/Qwen2.5-0.5B-Instruct", 8, 8, 256),
    8: ("Qwen/Qwen2.5-1.5B-Instruct", 8, 8, 256),
    12: ("Qwen/Qwen3-1.7B", 8, 8, 256),
    16: ("Qwen/Qwen3-4B-Instruct-2507", 8, 8, 256),
    24: ("Qwen/Qwen3-4B-Instruct-2507", 16, 8, 384),
}
WITHOUT_HUB = ("smollm2-135m", 8, 8, 16)


@pytest.fixture(scope="module")
def served() -> Iterator[Hub]:
    with hub_of_tiny_models() as hub:
        yield hub


@pytest.fixture
def machine(monkeypatch, tmp_path) -> Path:
    """A machine with a torch for CUDA, an empty cache and enough memory. Returns the folder in
    which a card may be put.
    """
    named.only_here.cache_clear()
    monkeypatch.setattr(card_memory, "installed_torch", lambda: CUDA)
    monkeypatch.setattr(by_card.memory, "available", lambda: 2**36)
    monkeypatch.setattr(named, "best", lambda tell: named.OF_HUB)
    for variable in ("HF_HUB_OFFLINE", "HF_HUB_CACHE", *card_memory.HIDING_NVIDIA):
        monkeypatch.delenv(variable, raising=False)
    for variable in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub" / "hub"))
    # `lab` sets it for whoever imports anything of it
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    return tmp_path / "bin"


@pytest.fixture
def hub(served, machine, monkeypatch) -> Hub:
    """A hub that answers."""
    monkeypatch.setenv("HF_ENDPOINT", served.address)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", served.address)
    template = served.address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    return served


def config_of(folder: Path, **given: object) -> NodeConfig:
    return NodeConfig.model_validate({"home": folder / "home", **given})


def first_run(folder: Path, told: list[str], **given: object) -> NodeConfig:
    """The configuration of a first run whose user agrees to every download."""
    get = getting(told.append, 0.0, lambda question: True)
    return resolved(config_of(folder, **given), told.append, get)


def shown(config: NodeConfig) -> tuple[str, int, int, int]:
    generation = config.generation
    sizes = generation.num_generations, generation.max_completion_length
    return config.model.name, config.round.questions, *sizes


def checkpoint(folder: Path, **model: Any) -> None:
    """A checkpoint of this model in the home."""
    place = folder / "home" / "checkpoints" / "00000020"
    place.mkdir(parents=True, exist_ok=True)
    (place / "state.json").write_text(json.dumps({"extra": {"model": model}}))


# The table


@pytest.mark.parametrize("size", CARDS)
def test_a_first_run_with_a_hub_gets_the_model_for_the_card(size, machine, hub, tmp_path) -> None:
    card(machine, size)
    told: list[str] = []
    config = first_run(tmp_path, told)
    assert shown(config) == WANTED[size]
    (choice,) = [one for one in CHOICES if (one.model.name, one.questions) == WANTED[size][:2]]
    assert config.model.revision == choice.model.hub.revision and named.is_kept(choice.model.hub)
    lines = [line for line in told if line.startswith("model for")]
    assert len(lines) == 1 and CARDS[size].name in lines[0] and "Apache-2.0" in lines[0]


@pytest.mark.parametrize("size", CARDS)
def test_a_first_run_without_a_hub_trains_the_small_model(
    size, machine, monkeypatch, tmp_path
) -> None:
    card(machine, size)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    assert shown(first_run(tmp_path, [])) == WITHOUT_HUB


def test_a_first_run_without_a_card_trains_the_small_model_and_asks_the_hub_nothing(
    machine, hub, tmp_path
) -> None:
    hub.asked.clear()
    assert shown(first_run(tmp_path, [])) == WITHOUT_HUB
    assert not hub.asked


def test_a_hub_that_lacks_the_model_costs_a_line_and_no_error(machine, hub, tmp_path) -> None:
    card(machine, 8)
    files = hub.files.pop(QWEN2_5_1_5B.name)
    try:
        told: list[str] = []
        assert shown(first_run(tmp_path, told)) == WITHOUT_HUB
        assert any("cannot be downloaded" in line for line in told)
    finally:
        hub.files[QWEN2_5_1_5B.name] = files


def test_without_a_hub_a_model_that_is_here_is_trained(machine, hub, monkeypatch, tmp_path) -> None:
    card(machine, 8)
    assert shown(first_run(tmp_path, [])) == WANTED[8]
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    card(machine, 24)
    assert shown(first_run(tmp_path / "new", [])) == WANTED[8]


# How it is trained


def test_a_chat_model_thinks_in_tags_answers_in_tags_and_is_graded(machine, hub, tmp_path) -> None:
    card(machine, 8)
    config = first_run(tmp_path, [])
    assert config.environment.choose
    assert config.environment.tasks == candidates(config_of(tmp_path), larger=True)
    assert (config.environment.answer, config.environment.scoring) == ("tags", "graded")
    assert config.environment.system == THINKING
    assert not config.model.template_arguments and not config.environment.shots
    assert (config.model.lora_rank, config.training.learning_rate) == (16, 1e-4)
    assert not config.training.beta and not config.generation.stop
    assert config.validation.every == 10


def test_a_chat_model_that_may_not_choose_practises_a_list_in_turn(machine, hub, tmp_path) -> None:
    card(machine, 8)
    config = first_run(tmp_path, [], environment={"choose": False})
    assert config.environment.tasks == CHAT_TASKS and config.environment.at_once
    assert config.environment.answer == "tags"


def test_what_the_user_gave_stays_on_a_card_too(machine, hub, tmp_path) -> None:
    card(machine, 24)
    given = {
        "generation": {"max_completion_length": 99},
        "round": {"questions": 3},
        "environment": {"tasks": ["gcd/easy"], "answer": "boxed", "system": "Be brief."},
        "training": {"beta": 0.1},
    }
    config = first_run(tmp_path, [], **given)
    assert shown(config) == ("Qwen/Qwen3-4B-Instruct-2507", 3, 8, 99)
    assert config.environment.tasks == ("gcd/easy",) and config.environment.answer == "boxed"
    assert config.environment.system == "Be brief." and config.training.beta == 0.1


def test_the_users_limit_of_memory_is_the_room(machine, hub, tmp_path) -> None:
    card(machine, 24)
    config = first_run(tmp_path, [], limits={"memory": 7500})
    assert shown(config) == WANTED[8]


def test_questions_of_the_users_own_keep_the_form_of_their_answers(machine, hub, tmp_path) -> None:
    card(machine, 8)
    file = tmp_path / "rows.csv"
    file.write_text("prompt,answer\n1+1=,2\n2+2=,4\n")
    config = first_run(tmp_path, [], dataset={"file": str(file)})
    assert config.environment.answer == "auto" and not config.environment.system
    assert shown(config) == WANTED[8]


def test_texts_to_go_on_with_are_no_chat(machine, hub, tmp_path) -> None:
    card(machine, 8)
    config = first_run(tmp_path, [], environment={"tasks": ["second/few"]})
    assert config.model.template_arguments == "none" and config.generation.stop == ("\n",)
    assert config.environment.answer == "auto"


def test_all_weights_get_a_small_rate() -> None:
    config = NodeConfig.model_validate({"model": {"name": QWEN2_5_1_5B.name, "lora_rank": 0}})
    assert suited(config, choice=CHOICES[1]).training.learning_rate == 1e-6


def test_a_model_that_the_user_names_is_trained_as_on_a_card_only_where_a_card_is(
    machine, hub, tmp_path
) -> None:
    name = {"model": {"name": "Qwen/Qwen2.5-0.5B-Instruct"}}
    config = first_run(tmp_path, [], **name)
    assert config.environment.answer == "auto" and config.generation.max_completion_length == 16
    card(machine, 24)
    config = first_run(tmp_path, [], **name)
    assert config.environment.answer == "tags" and config.generation.max_completion_length == 256
    assert not config.model.revision  # its main branch, as for each model that a user names


def test_an_environment_that_the_user_names_asks_its_own_first_tasks(
    machine, hub, tmp_path
) -> None:
    card(machine, 8)
    config = first_run(tmp_path, [], environment={"use": ["basics"]})
    assert config.environment.tasks[0] == "next/few"


# Later starts


def test_a_home_goes_on_with_its_model_whatever_card_is_here(machine, hub, tmp_path) -> None:
    card(machine, 24)
    model = QWEN2_5_1_5B
    checkpoint(tmp_path, name=model.name, revision=model.hub.revision, lora_rank=4)
    told: list[str] = []
    config = first_run(tmp_path, told)
    assert shown(config) == WANTED[8] and config.model.lora_rank == 4
    assert config.model.revision == model.hub.revision and not told
    checkpoint(tmp_path, name="smollm2-135m", lora_rank=16)
    named_here = named.obtain
    try:
        named.obtain = lambda name, tell, earlier=False: Path(name)  # type: ignore[assignment]
        assert shown(first_run(tmp_path, told)) == WITHOUT_HUB
    finally:
        named.obtain = named_here


def test_a_home_of_a_model_of_ours_says_so_where_it_cannot_be_had(
    machine, monkeypatch, tmp_path
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    checkpoint(tmp_path, name=QWEN2_5_1_5B.name, revision=QWEN2_5_1_5B.hub.revision)
    with pytest.raises(named.UserError, match=r"hf download Qwen/Qwen2\.5-1\.5B-Instruct"):
        first_run(tmp_path, [])


@pytest.mark.parametrize("revision", ["0" * 40, "refs/pr/7", "", None, ["x"]])
def test_a_home_cannot_name_another_commit_of_a_model_of_ours(
    machine, hub, tmp_path, revision
) -> None:
    """Anybody may lay a commit beside a model on the hub, and a home may be a stranger's."""
    checkpoint(tmp_path, name=QWEN2_5_1_5B.name, revision=revision)
    assert first_run(tmp_path, []).model.name == named.OF_HUB


# Commands that look


def test_what_only_looks_chooses_the_same_model_and_fetches_nothing(machine, hub, tmp_path) -> None:
    card(machine, 12)
    told: list[str] = []
    config = resolved(config_of(tmp_path), told.append, looking(told.append))
    assert shown(config) == WANTED[12] and "a download of 4.1 GB" in told[0]
    assert by_card.is_awaited(config.model.name, config.model.revision)
    assert not named.is_kept(CHOICES[2].model.hub)


def test_without_the_last_word_on_downloads_no_model_for_a_card_is_chosen(
    machine, hub, tmp_path
) -> None:
    card(machine, 12)
    assert shown(resolved(config_of(tmp_path), print)) == WITHOUT_HUB


# The command

# `swarm-node` on a machine with a torch for CUDA and enough memory. What it trains is so small that
# a CPU does
COMMAND = """
import sys
from swarm_node.common import card_memory, memory
from swarm_node.common.cards import Build
memory.available = lambda: 2**35
card_memory.installed_torch = lambda: Build("2.13.0", "13.0")
from swarm_node.commands.cli import main
main()
"""


def environment_of(hub: Hub, folder: Path) -> Mapping[str, str]:
    ours = "HF_", "SWARM_NODE_"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {
        **kept,
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(folder / "hub"),
        "PATH": f"{folder / 'bin'}:/bin:/usr/bin",
        "no_proxy": "127.0.0.1",
    }


def started(hub: Hub, folder: Path, *words: str, **options: Any) -> "subprocess.Popen[str]":
    home = "--home", str(folder / "home")
    line = [sys.executable, "-P", "-c", COMMAND, *words, *home]
    where = {"cwd": ROOT, "env": {**environment_of(hub, folder), "PYTHONPATH": str(ROOT)}}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(line, text=True, **{**where, **streams, **options})


SHORT = ("--max-rounds", "1", "--network.no-enabled", "--validation.every", "0")
SMALL = ("--round.questions", "2", "--generation.max-completion-length", "32")


@pytest.mark.slow
def test_a_first_run_trains_the_model_for_the_card_and_its_home_goes_on_with_it(
    hub, machine, tmp_path
) -> None:
    card(machine, 16)
    with started(hub, tmp_path, "run", *SHORT, *SMALL, "--limits.download", "8100") as process:
        said = process.communicate(timeout=600)[0]
    assert process.returncode == 0, said
    assert "model for NVIDIA GeForce RTX 4080" in said and "cdbee75f, Apache-2.0" in said
    (state,) = (tmp_path / "home" / "checkpoints").glob("*/state.json")
    model = json.loads(state.read_text())["extra"]["model"]
    hub_model = CHOICES[-1].model.hub
    assert (model["name"], model["revision"]) == (hub_model.repository, hub_model.revision)
    # Another card, and no hub
    card(machine, 6)
    gone = {"env": {**environment_of(hub, tmp_path), "HF_ENDPOINT": "http://127.0.0.1:1"}}
    again = "run", "--max-rounds", "2", *SHORT[2:], *SMALL
    with started(hub, tmp_path, *again, **gone, cwd=ROOT) as process:
        said = process.communicate(timeout=600)[0]
    assert process.returncode == 0, said
    assert "resumed after 1 rounds" in said and "model for" not in said


def read(terminal: int) -> bytes:
    """What was written to the other end of the terminal; nothing once that is closed."""
    try:
        return os.read(terminal, 65536)
    except OSError:  # so the end of a terminal shows on Linux
        return b""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a terminal keeps what was written to it")
def test_at_a_terminal_a_large_download_waits_for_a_yes(hub, machine, tmp_path) -> None:
    card(machine, 8)
    hub.asked.clear()
    ours, theirs = pty.openpty()
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with started(hub, tmp_path, "run", *SHORT, *SMALL, **streams) as process:
        os.close(theirs)
        said = b""
        while b"[y/N]" not in said:
            said += read(ours)
            assert process.poll() is None, said.decode()
        # Nothing was fetched before the answer
        assert {file for _, file in hub.asked} <= {"config.json"}
        os.write(ours, b"y\n")
        while part := read(ours):
            said += part
    os.close(ours)
    assert process.returncode == 0, said.decode()
    assert b"download 3.1 GB? [y/N]" in said
    assert named.is_kept(QWEN2_5_1_5B.hub)


@pytest.mark.slow
def test_check_says_what_a_card_of_a_size_would_get_and_downloads_no_weights(
    hub, machine, tmp_path
) -> None:
    hub.asked.clear()
    with started(hub, tmp_path, "check", "--memory", "12GB") as process:
        said = process.communicate(timeout=600)[0]
    assert process.returncode == 0, said
    assert "model.name = Qwen/Qwen3-1.7B  (suits the model)" in said and "memory: about" in said
    assert not {file for _, file in hub.asked if file.endswith(".safetensors")}


@pytest.mark.slow
def test_check_plans_for_the_card_that_is_here_before_its_model_is(hub, machine, tmp_path) -> None:
    card(machine, 12)
    hub.asked.clear()
    with started(hub, tmp_path, "check") as process:
        said = process.communicate(timeout=600)[0]
    assert process.returncode == 0, said
    assert "Qwen/Qwen3-1.7B is not downloaded yet" in said and "of 11.0 GiB; fits" in said
    assert not {file for _, file in hub.asked if file.endswith(".safetensors")}
