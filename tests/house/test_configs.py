"""The configuration files of the repository, with all their sections."""

import tomllib
from pathlib import Path

import pytest

from lab.benchmarks.foretold import named_card, of_choice, of_file, told
from swarm_node.environments.reasoning_gym.catalogue import PAPER
from swarm_node.environments.registry import by_kind
from swarm_node.policy.by_card import CHOICES
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


NODES = [
    file
    for file in sorted((ROOT / "configs").glob("*.toml"))
    if file.stem not in ("simulate", "starters")
]
CARDS = [file for file in NODES if named_card(file.read_text())]
RUN = ("Nobody has run it on a card yet.", "Run here", "Not run here")


def first_lines(file: Path) -> str:
    """The comment with which a configuration begins."""
    lines = file.read_text().splitlines()
    return "\n".join(line for line in lines[: lines.index("[model]")] if line.startswith("#"))


@pytest.mark.parametrize("file", NODES, ids=lambda file: file.name)
def test_every_configuration_of_a_node_names_its_tasks_and_who_ran_it(file):
    config = of_file(file)
    assert config.environment.tasks
    assert by_kind(config)  # each of them exists
    assert any(words in first_lines(file) for words in RUN)


@pytest.mark.parametrize("file", CARDS, ids=lambda file: file.name)
def test_a_configuration_for_a_card_says_its_memory_by_plan_and_the_time_that_is_foretold(file):
    """`python -m lab.benchmarks.foretold` prints these lines."""
    assert told(of_file(file), named_card(file.read_text())) in first_lines(file)


@pytest.mark.parametrize("file", CARDS, ids=lambda file: file.name)
def test_a_model_for_a_card_is_pinned_where_a_first_run_would_pin_it(file):
    pins = {choice.model.name: choice.model.hub.revision for choice in CHOICES}
    model = of_file(file).model
    assert model.revision == pins.get(model.name, model.revision)


def test_a_configuration_that_says_so_trains_what_a_run_without_a_file_trains():
    said = [file for file in CARDS if "What a run without a file trains" in first_lines(file)]
    assert len(said) == 4
    for file in said:
        config = of_file(file)
        sizes = [config.round.questions, config.generation, config.model]
        assert any(
            [made.round.questions, made.generation, made.model] == sizes
            for made in map(of_choice, CHOICES)
        ), file
