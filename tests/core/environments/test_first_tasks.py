"""What a pre-trained model learns where its user names no tasks, or brings questions."""

from pathlib import Path

from swarm_node.environments.basics.environment import KIND
from swarm_node.environments.reasoning_gym import environment
from swarm_node.environments.reasoning_gym.catalogue import (
    LARGER_TASKS,
    SMALL_TASKS,
    STARTER_TASKS,
)
from swarm_node.node.defaults import resolved, suited
from swarm_node.policy import named
from swarm_node.settings import LearningConfig, NodeConfig

BASICS = KIND.candidates
BRINGS = {"dataset": {"file": "questions.csv"}}


def config(home: Path, **given: object) -> NodeConfig:
    return NodeConfig.model_validate({"home": home, **given})


def test_a_pretrained_model_gets_adapters_their_rate_and_the_first_tasks(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(named, "best", lambda tell: "smollm2-135m")
    found = resolved(config(tmp_path), print)
    assert (found.model.name, found.model.lora_rank, found.model.template_arguments) == (
        "smollm2-135m",
        16,
        "none",
    )
    assert (found.training.learning_rate, found.round.questions) == (2e-4, 8)
    assert found.generation.stop == ("\n",) and found.validation.every > 0
    assert found.environment.choose and found.environment.shots == 4
    assert len(found.environment.tasks) == 40 and found.environment.at_once == 10


def test_a_node_chooses_among_basics_and_what_such_a_model_answers_of_reasoning_gym(
    tmp_path,
) -> None:
    tasks = suited(config(tmp_path, model={"name": "smollm2-135m"})).environment.tasks
    assert [*BASICS] == [task for task in tasks if task.endswith("/few")]
    assert {*SMALL_TASKS} == {task for task in tasks if not task.endswith("/few")}


def test_without_the_library_it_chooses_among_basics_and_the_nine_of_the_starters(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(environment, "is_installed", lambda: False)
    tasks = suited(config(tmp_path, model={"name": "smollm2-135m"})).environment.tasks
    assert {*tasks} == {*BASICS, *STARTER_TASKS}


def test_a_model_with_room_to_think_chooses_among_easy_tasks_in_a_chat(tmp_path) -> None:
    asked = config(
        tmp_path, model={"name": "somebody/large"}, generation={"max_completion_length": 256}
    )
    found = suited(asked)
    assert found.environment.tasks == LARGER_TASKS and found.environment.choose
    assert not found.environment.shots and not found.model.template_arguments
    assert 25 <= len(LARGER_TASKS) <= 35


def test_without_the_library_such_a_model_chooses_among_the_nine_of_the_starters(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(environment, "is_installed", lambda: False)
    given = {"model": {"name": "somebody/large"}, "generation": {"max_completion_length": 256}}
    assert suited(config(tmp_path, **given)).environment.tasks == STARTER_TASKS


def test_who_does_not_want_the_node_to_choose_gets_a_few_tasks_in_turn(tmp_path) -> None:
    asked = config(tmp_path, model={"name": "smollm2-135m"}, environment={"choose": False})
    found = suited(asked).environment
    assert (len(found.tasks), found.at_once, found.choose) == (8, 4, False)


def test_a_list_of_the_users_own_is_taken_as_it_is(tmp_path) -> None:
    tasks = ("gcd/easy", "lcm/easy")
    asked = config(tmp_path, model={"name": "smollm2-135m"}, environment={"tasks": tasks})
    found = suited(asked).environment
    assert (found.tasks, found.choose, found.at_once) == (tasks, False, 0)


def test_a_simulation_takes_a_few_tasks_in_turn(tmp_path) -> None:
    found = suited(LearningConfig.model_validate({"model": {"name": "smollm2-135m"}})).environment
    assert (len(found.tasks), found.at_once, found.choose) == (8, 4, False)


def test_questions_of_ones_own_with_shots_are_texts_to_go_on_with(tmp_path) -> None:
    found = suited(
        config(tmp_path, model={"name": "smollm2-135m"}, environment={"shots": 4}, **BRINGS)
    )
    assert (
        found.model.template_arguments == "none"
        and found.generation.stop == ("\n",)
        and found.validation.every
    )
    assert not found.environment.tasks


def test_without_shots_they_are_turns_of_a_chat(tmp_path) -> None:
    found = suited(config(tmp_path, model={"name": "smollm2-135m"}, **BRINGS))
    assert (
        not found.model.template_arguments
        and not found.generation.stop
        and not found.validation.every
    )


def test_one_who_names_reasoning_gym_gets_what_such_a_model_answers_with_shots(tmp_path) -> None:
    asked = config(tmp_path, model={"name": "smollm2-135m"}, environment={"use": ["reasoning_gym"]})
    found = suited(asked)
    assert found.environment.tasks == SMALL_TASKS and found.environment.choose
    assert (found.environment.shots, found.environment.at_once) == (4, 10)
    assert found.model.template_arguments == "none" and found.generation.stop == ("\n",)
