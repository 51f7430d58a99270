"""What a pre-trained model learns where its user names no tasks, or brings questions."""

from pathlib import Path

from swarm_node.environments.reasoning_gym.catalogue import PRETRAINED_TASKS
from swarm_node.node.defaults import resolved, suited
from swarm_node.policy import named
from swarm_node.settings import NodeConfig

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
    assert len(found.environment.tasks) > found.environment.at_once == 4


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
    assert found.environment.tasks == PRETRAINED_TASKS and (
        found.environment.shots,
        found.environment.at_once,
    ) == (
        4,
        4,
    )
    assert found.model.template_arguments == "none" and found.generation.stop == ("\n",)
