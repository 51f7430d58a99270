"""The shipped starters are what their cards say, and the fast part of the recipe makes the same
bytes each time.
"""

import re
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lab.starters import puzzler, tokens
from lab.starters.make import RECIPES, new_model
from lab.starters.make import Shape as ModelShape
from lab.starters.measuring import measure
from lab.starters.teaching import Schedule, right_answers, teach
from swarm_node.common.errors import UserError
from swarm_node.environments.temporal_clue import text
from swarm_node.policy.loading import load_policy
from swarm_node.settings import ModelConfig
from swarm_node.starters import STARTERS, folder

DOCS = Path(__file__).parents[2] / "docs" / "explanation" / "starters.md"
QUESTION = "Factor 12 as 2 × 2 × 3,\nplease?\n"


def load(name: str) -> tuple[Any, Any]:
    path = folder(name)
    return AutoModelForCausalLM.from_pretrained(path).eval(), AutoTokenizer.from_pretrained(path)


def share_on_card(name: str) -> float:
    card = (folder(name) / "README.md").read_text(encoding="utf-8")
    found = re.search(r"informative share at the start: \*\*([0-9.]+)\*\*", card)
    assert found
    return float(found.group(1))


def test_an_unknown_starter_is_a_value_error_that_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="dense, rare"):
        folder("denser")


@pytest.mark.parametrize("name", STARTERS)
def test_a_starter_loads_in_float32_with_tied_embeddings_and_its_special_tokens(name: str) -> None:
    model, tokenizer = load(name)
    assert model.dtype == torch.float32 and model.lm_head.weight is model.model.embed_tokens.weight
    assert model.config.max_position_embeddings == tokenizer.model_max_length == tokens.CONTEXT
    assert model.config.vocab_size == len(tokenizer)
    for settings in (model.config, model.generation_config):
        assert (
            settings.eos_token_id == tokenizer.eos_token_id
            and settings.pad_token_id == tokenizer.pad_token_id
        )


@pytest.mark.parametrize("name", STARTERS)
def test_the_chat_template_gives_exactly_bos_question_sep(name: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder(name))
    chat = [{"role": "user", "content": QUESTION}]
    assert (
        tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        == f"<bos>{QUESTION}<sep>"
    )
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    plain = tokenizer(QUESTION, add_special_tokens=False)["input_ids"]
    assert (
        ids == [tokenizer.bos_token_id, *plain, tokenizer.sep_token_id]
        and tokenizer.decode(plain) == QUESTION
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", STARTERS)
def test_the_share_on_the_card_and_in_the_docs_agrees_with_a_small_measurement(name: str) -> None:
    share = share_on_card(name)
    model, tokenizer = load(name)
    measured = measure(model, tokenizer, groups_per_task=4, name="test")
    assert (
        abs(measured.mean_informative - share)
        < 5 * sqrt(share * (1 - share) / measured.groups) + 0.02
    )
    assert abs(share - RECIPES[name].aim) < 0.25 * RECIPES[name].aim
    row = next(
        line
        for line in DOCS.read_text(encoding="utf-8").splitlines()
        if line.startswith(f"| `{name}` ")
    )
    assert f" {share:.3f} " in row


def test_the_tokenizers_of_all_starters_are_the_bytes_the_recipe_makes(tmp_path: Path) -> None:
    tokens.save(tokens.bpe(tokens.task_text()), tmp_path / "pairs")
    tokens.save(tokens.characters(), tmp_path / "characters")
    for name in STARTERS:
        made = tmp_path / ("characters" if name == "rare_large" else "pairs")
        for file in ("tokenizer.json", "chat_template.jinja"):
            assert (made / file).read_bytes() == (folder(name) / file).read_bytes()


def test_training_twice_gives_the_same_weights() -> None:
    schedule = Schedule(steps=3, batch=8, rate=1e-3)
    shape = ModelShape(32, 1, 2, 64, "characters", schedule)
    tokenizer, weights = tokens.characters(), []
    for _ in range(2):
        model = new_model(shape, tokenizer, "test")
        teach(model, tokenizer, right_answers("test"), schedule, lambda line: None)
        weights.append(torch.cat([parameter.flatten() for parameter in model.parameters()]))
    assert torch.equal(*weights)


@pytest.mark.slow
def test_the_puzzler_loads_fits_two_megabytes_and_guesses_as_its_card_says() -> None:
    model, tokenizer = load("puzzler")
    assert sum(path.stat().st_size for path in folder("puzzler").iterdir()) < 2e6
    card = (folder("puzzler") / "README.md").read_text(encoding="utf-8")
    found = re.search(r"at the start \| \*\*([0-9.]+)\*\* \| ([0-9.]+) ", card)
    assert found
    asked = puzzler.puzzles(120, puzzler.MEASURED_SEED)
    sampled, likeliest = (
        fmean(puzzler.rewards(model, tokenizer, asked, how)) for how in (True, False)
    )
    assert abs(sampled - float(found.group(1))) < 0.12  # four standard errors of 120 puzzles
    assert abs(likeliest - float(found.group(2))) < 0.12
    assert 0.45 < sampled < 0.65  # some headroom, some reward


def test_the_puzzler_reads_a_puzzle_in_few_tokens_and_loses_none_of_it() -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder("puzzler"))
    prompts = [
        text.prompt(puzzle) for size in ("tiny", "medium") for puzzle in puzzler.puzzles(4, 1, size)
    ]
    ids = tokenizer(prompts, add_special_tokens=False)["input_ids"]
    assert [tokenizer.decode(row) for row in ids] == prompts and max(map(len, ids[:4])) < 60


def test_a_starter_that_is_missing_says_to_install_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm_node.starters.folder", lambda name: tmp_path / name)
    with pytest.raises(UserError, match=r"starter puzzler is missing .* install textswarm again$"):
        load_policy(ModelConfig(name="puzzler"))
