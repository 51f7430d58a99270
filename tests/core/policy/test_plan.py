"""The memory plan: what it chooses, that shipped configurations fit their cards, and that traces
agree with it.
"""

import re
from mmap import mmap
from pathlib import Path

import pytest
import torch

from lab.benchmarks.memory_plan import decoded, traced
from lab.benchmarks.shapes import shapes
from swarm_node.common.errors import UserError
from swarm_node.node.learner import build_trainer
from swarm_node.policy import memory_plan
from swarm_node.policy import plan as plans
from swarm_node.policy.memory_plan import fitted, plan_for, plan_here, plan_of
from swarm_node.policy.plan import GIB
from swarm_node.settings import (
    GenerationConfig,
    LearningConfig,
    LimitsConfig,
    ModelConfig,
    NodeConfig,
    TrainingConfig,
)
from tests.commands import resolve
from tests.models import tiny_policy, with_lora

CONFIGS = Path(__file__).parents[3] / "configs"
CARD = re.compile(r"(\d+) GB GPU")
NAMED = [path for path in sorted(CONFIGS.glob("*.toml")) if CARD.search(path.read_text())]
HALF_B = "Qwen/Qwen2.5-0.5B-Instruct"


def full(**training) -> LearningConfig:
    return LearningConfig(
        generation=GenerationConfig(max_completion_length=256), training=TrainingConfig(**training)
    )


def test_there_is_a_configuration_for_each_size_of_card_and_way() -> None:
    assert {(path.name.split("_")[0], int(CARD.search(path.read_text())[1])) for path in NAMED} >= {
        (way, card) for way in ("full", "lora") for card in (8, 12, 16, 24)
    }


@pytest.mark.parametrize(
    "path", [*CONFIGS.glob("full_*.toml"), *CONFIGS.glob("lora*.toml")], ids=lambda path: path.name
)
def test_a_configuration_for_a_card_asks_for_64_or_128_completions_at_a_time(path) -> None:
    """A card multiplies 64 rows at a time: 72 would cost it as much as 128."""
    config = resolve(NodeConfig, path, {})
    rows = config.round.questions * config.generation.num_generations
    assert rows in (64, 128)


@pytest.mark.parametrize("path", NAMED, ids=lambda path: path.name)
def test_shipped_configurations_fit_the_card_that_their_comment_names(path) -> None:
    config = resolve(NodeConfig, path, {})
    made = plan_of(config, shapes()[config.model.name], int(CARD.search(path.read_text())[1]) * GIB)
    assert made.fits, made.lines()


def test_what_has_room_is_left_as_it_is() -> None:
    policy = tiny_policy(max_position_embeddings=512)
    config, made = fitted(LearningConfig(), policy)
    assert made is not None and made.fits
    assert config.training == TrainingConfig(optimizer="adamw", token_budget=2048)
    assert config.generation == LearningConfig().generation
    longer = LearningConfig(generation=GenerationConfig(max_completion_length=256))
    assert fitted(longer, policy)[0].training.token_budget == 256 + 8 * 256  # a whole group
    assert not build_trainer(config, policy).policy.checkpointing


def test_a_limit_is_what_the_node_plans_with() -> None:
    policy = tiny_policy()
    (_, made), (_, free) = (
        fitted(LearningConfig(), policy, LimitsConfig(memory=each)) for each in (600, 10**9)
    )
    # The machine has less
    assert made is not None and made.room == 600e6 and free is not None and free.room < 1e15


def test_smaller_cards_get_what_costs_least_time_first(monkeypatch) -> None:
    monkeypatch.setattr(plans, "has_8bit", lambda: True)
    choices = [plan_of(full(), shapes()[HALF_B], card * GIB).choice for card in (80, 24, 12, 8)]
    assert not choices[0].checkpointing and choices[0].budget == 16384
    assert [choice.optimizer for choice in choices] == ["adamw", "adamw", "adamw", "adamw_8bit"]
    assert choices[2].checkpointing and plans.LEAST_BUDGET <= choices[3].budget <= choices[1].budget


def test_adapters_on_a_cpu_take_little_memory_or_half_of_it_for_a_whole_group() -> None:
    shape, how = (
        plans.shape_of(shapes()[HALF_B], 494_032_768, adapters=8_798_208),
        plans.Arithmetic("cpu", 2, 4, 4),
    )
    config = LearningConfig(
        model=ModelConfig(lora_rank=16), generation=GenerationConfig(max_completion_length=64)
    )
    # 2.7 GiB for a group
    made = [plans.plan(shape, how, config, room * GIB) for room in (24, 8, 5.5, 5, 4.5)]
    assert [each.choice.budget for each in made] == [768, 768, 768, 512, 384] and all(
        each.fits for each in made
    )
    short = config.model_copy(update={"generation": GenerationConfig(max_completion_length=8)})
    # 2.4 GiB
    assert [plans.plan(shape, how, short, room * GIB).choice.budget for room in (24, 10)] == [
        512,
        320,
    ]


def test_a_copy_that_adapters_are_merged_into_counts_and_a_card_has_none() -> None:
    """The base of 2.8 billion weights in blocks is in bfloat16, and a copy of these and of the head
    would be.
    """
    config = LearningConfig(
        model=ModelConfig(lora_rank=16), generation=GenerationConfig(max_completion_length=256)
    )
    found = shapes()["Qwen/Qwen2.5-3B-Instruct"]
    on_card = plan_of(config, found, 12 * GIB)
    shape = plans.shape_of(found, 3_085_938_688, adapters=30_000_000)
    merged, beside = (
        plans.generation(shape, plans.Arithmetic("cuda", 2, 4, 2, merges=merges), True, 72, 512, 8)
        for merges in (True, False)
    )
    assert 5.6 < (merged - beside) / GIB < 6.0
    assert on_card.fits and on_card.generation == pytest.approx(beside)


def test_a_base_that_is_mapped_from_a_file_leaves_memory_while_the_copy_is_there() -> None:
    policy = with_lora(tiny_policy())
    config = LearningConfig(model=ModelConfig(lora_rank=4))
    there = plan_here(config, policy)
    policy.base = mmap(-1, 1)
    mapped = plan_here(config, policy)
    assert there is not None and mapped is not None
    assert there.generation > mapped.generation


def test_the_room_of_a_card_is_what_others_have_left_there(monkeypatch) -> None:
    """A desktop, another node and another process of this one take a part of the card."""
    free, total, own = 5 * GIB, 12 * GIB, 2 * GIB
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, total))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: own)
    room = memory_plan.room_of(torch.device("cuda"), LimitsConfig())
    assert room == free + own + plans.PROCESS["cuda"] < total
    assert memory_plan.room_of(torch.device("cuda"), LimitsConfig(memory=4000)) == 4e9
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: total)
    assert memory_plan.room_of(torch.device("cuda"), LimitsConfig()) == total


def test_a_plan_says_what_checkpoints_write_in_a_day() -> None:
    made = plan_of(full(), shapes()[HALF_B], 24 * GIB)
    saved = made.gradients + made.optimizer
    assert saved / GIB == pytest.approx(5.5, rel=0.01)  # 12 bytes for each of 0.494 billion weights
    assert plans.amount(144 * saved) in made.of_checkpoints(10.0)  # 144 times ten minutes a day
    assert "795.1 GiB a day" in made.of_checkpoints(10.0)
    assert "79.5 GiB a day" in made.of_checkpoints(100.0)


def test_what_the_user_says_stays() -> None:
    made = plan_of(full(optimizer="adamw", token_budget=999), shapes()[HALF_B], 4 * GIB)
    assert (made.choice.optimizer, made.choice.budget, made.fits) == ("adamw", 999, False)
    assert "does not fit" in made.lines()[0]


def test_where_generation_is_too_much_fewer_tokens_are_decoded_at_a_time() -> None:
    config = LearningConfig(
        model=ModelConfig(lora_rank=16), generation=GenerationConfig(max_completion_length=8192)
    )
    made = plan_of(config, shapes()["Qwen/Qwen3-0.6B"], 16 * GIB)
    assert made.fits and made.choice.concurrent > 0


def test_all_turns_of_an_episode_count_as_far_as_the_context_reaches() -> None:
    single, several = (
        plan_of(full(token_budget=512), shapes()[HALF_B], 80 * GIB, turns) for turns in (1, 6)
    )
    assert (
        several.micro_batch > 2 * single.micro_batch and several.generation > 3 * single.generation
    )
    shaped = [plans.shape_of(shapes()[HALF_B], 1, turns=turns) for turns in (1, 2, 6, 10**6)]
    assert [plans.length(each, full()) for each in shaped] == [512, 832, 2112, shaped[0].context]


def test_a_reference_model_counts() -> None:
    plain, penalty = (
        plan_of(full(beta=beta), shapes()[HALF_B], 80 * GIB).weights for beta in (0.0, 0.1)
    )
    assert penalty == pytest.approx(2 * plain)


def test_sizes_are_read_as_people_write_them(tmp_path) -> None:
    shapes()[HALF_B].save_pretrained(tmp_path)
    config = full().model_copy(update={"model": ModelConfig(name=str(tmp_path))})
    assert (
        plan_for(config, "8GB").room
        == plan_for(config, "8 GiB").room
        == plan_for(config, "8192M").room
        == 8 * GIB
    )
    with pytest.raises(UserError, match="cannot read the shape"):
        plan_for(
            config.model_copy(update={"model": ModelConfig(name=str(tmp_path / "none"))}), "8GB"
        )


@pytest.mark.slow
@pytest.mark.parametrize("lora", [False, True], ids=["full", "LoRA"])
@pytest.mark.parametrize("again", [False, True], ids=["kept", "again"])
@pytest.mark.parametrize("name", [HALF_B, "meta-llama/Llama-3.2-1B-Instruct"])
def test_traces_agree_with_the_plan(name, again, lora) -> None:
    found, planned = traced(shapes()[name], lora=lora, again=again, layers=6)
    assert planned == pytest.approx(found, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("lora", [False, True], ids=["full", "LoRA"])
@pytest.mark.parametrize("name", [HALF_B, "Qwen/Qwen2.5-3B-Instruct"])
def test_traces_of_generation_agree_with_the_plan(name, lora) -> None:
    found, planned = decoded(shapes()[name], lora=lora, layers=4)
    assert planned == pytest.approx(found, rel=0.1)
