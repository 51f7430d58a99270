"""The worked example of docs/environments.md, taken from the page and run."""

import re
from pathlib import Path
from typing import Any

import pytest

from protocol.messages import PeerId, Round
from swarm_node.environments.mixture import Mixture
from swarm_node.environments.reasoning_gym.environment import ReasoningGym
from swarm_node.interfaces import Environment
from swarm_node.rollouts.groups import Skipped

PAGE = Path(__file__).parents[3] / "docs" / "environments.md"
AUTHOR = PeerId("12D3KooWAlice")


@pytest.fixture
def example() -> Environment:
    found = re.search(r"<!-- example: begin -->\n```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(found[1], str(PAGE), "exec"), names)
    environment: Environment = names["Reversal"]()
    return environment


def test_the_example_asks_and_judges(example: Environment) -> None:
    questions = example.sample(AUTHOR, Round(3), 4)
    assert questions == example.sample(AUTHOR, Round(3), 4) and all(map(example.catalogue.knows, questions))
    prompts = example.prompts(questions)
    assert len(set(prompts)) == 4
    words = [prompt.split()[1] for prompt in prompts if isinstance(prompt, str)]
    assert (
        example.score([(q, [word[::-1], "x" + word]) for q, word in zip(questions, words, strict=True)])
        == [(1.0, 0.0)] * 4
    )


@pytest.mark.slow
def test_the_example_is_one_environment_of_a_mixture(example: Environment) -> None:
    mixture = Mixture({"reasoning_gym": ReasoningGym(["gcd/tiny"]), "reversal": example})
    questions = mixture.sample(AUTHOR, Round(0), 6)
    assert [question.environment for question in questions].count("reversal") == 3
    assert not any(isinstance(prompt, Skipped) for prompt in mixture.prompts(questions))
    assert all(map(mixture.catalogue.knows, questions))
    mixture.close()
