"""The configuration files of the repository, with all their sections."""

import tomllib
from pathlib import Path

import pytest

from swarm_node.environments.reasoning_gym.catalogue import PAPER
from swarm_node.settings import NodeConfig
from swarm_node.settings.options import flatten
from swarm_node.settings.simulation import SimulationConfig
from tests.commands import resolve

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "file", sorted((ROOT / "configs").glob("*.toml")), ids=lambda path: path.name
)
def test_every_config_file_in_the_repository_is_valid(file):
    kind = SimulationConfig if file.stem in ("simulate", "specialists", "starters") else NodeConfig
    config = resolve(kind, file, {})
    assert flatten(tomllib.loads(file.read_text())).keys() <= flatten(config.model_dump()).keys()


# What is published: the first lines of a configuration call it "as there" or "as published".
# genrl: GRPOTrainerConfig and compute_loss of gensyn-genrl 0.1.6, whose step clips no gradients.
# Temporal Clue: train.py, lib/tasks.py, lib/pack.py and lib/tokenize.py of
# github.com/OpenPipe/deductive-reasoning.
PUBLISHED = {
    "qwen2.5-0.5b.toml": {
        "training.learning_rate": 1e-5,
        "training.loss_type": "dapo",
        "training.max_grad_norm": 1e9,
        "generation.max_completion_length": 256,
    },
    "temporal_clue.toml": {
        "training.learning_rate": 6e-6,
        "training.adam_betas": (0.9, 0.99),
        "training.weight_decay": 0.1,
        "training.epsilon": 0.2,
        "training.epsilon_high": 0.2,
        "training.beta": 0.0,
        "training.scale_rewards": "population",
        "training.only_differences": True,
        "training.max_grad_norm": 1e9,
        "generation.num_generations": 50,
        "generation.max_completion_length": 8192,
        "generation.stop_below": -3.0,
        "round.questions": 32,
    },
}


@pytest.mark.parametrize("file", sorted(PUBLISHED))
def test_a_recipe_has_the_published_values_that_its_first_lines_promise(file):
    found = flatten(resolve(NodeConfig, ROOT / "configs" / file, {}).model_dump())
    assert {name: found[name] for name in PUBLISHED[file]} == PUBLISHED[file]


def test_the_recipe_of_the_paper_asks_all_tasks_of_the_paper_and_no_others():
    config = resolve(NodeConfig, ROOT / "configs" / "qwen2.5-0.5b.toml", {})
    assert sorted(config.environment.tasks) == sorted(f"{name}/paper" for name in PAPER)
