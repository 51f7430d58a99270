"""The shipped starters are what their cards say, and the fast part of the recipe makes the same bytes each time."""

import re
from itertools import islice
from math import sqrt
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lab.starters import puzzler, tokens
from lab.starters.make import RECIPES, new_model
from lab.starters.make import Shape as ModelShape
from lab.starters.measuring import measure
from lab.starters.questions import MEASURING_SEED, TASKS, TRAINING_SEED, Questions
from lab.starters.teaching import STOCK, Hiding, Schedule, hidden_answers, right_answers, teach
from swarm_node.common.errors import UserError
from swarm_node.extensions.temporal_clue import text
from swarm_node.policy.loading import load_policy
from swarm_node.settings import ModelConfig
from swarm_node.starters import STARTERS, folder
from tests.commands import python

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


def test_finding_a_folder_needs_no_torch() -> None:
    code = "import sys, swarm_node.starters as s; s.folder('rare'); sys.exit('torch' in sys.modules)"
    assert python("-c", code).returncode == 0


def test_an_unknown_starter_is_a_value_error_that_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="dense, rare"):
        folder("denser")


def test_all_starters_together_stay_under_twenty_megabytes() -> None:
    files = [path for name in STARTERS for path in folder(name).iterdir()]
    assert sum(path.stat().st_size for path in files) < 20e6


@pytest.mark.parametrize("name", STARTERS)
def test_a_starter_loads_in_float32_with_tied_embeddings_and_its_special_tokens(name: str) -> None:
    model, tokenizer = load(name)
    assert model.dtype == torch.float32 and model.lm_head.weight is model.model.embed_tokens.weight
    assert model.config.max_position_embeddings == tokenizer.model_max_length == tokens.CONTEXT
    assert model.config.vocab_size == len(tokenizer)
    for settings in (model.config, model.generation_config):
        assert settings.eos_token_id == tokenizer.eos_token_id and settings.pad_token_id == tokenizer.pad_token_id


@pytest.mark.parametrize("name", STARTERS)
def test_the_chat_template_gives_exactly_bos_question_sep(name: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder(name))
    chat = [{"role": "user", "content": QUESTION}]
    assert tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False) == f"<bos>{QUESTION}<sep>"
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    plain = tokenizer(QUESTION, add_special_tokens=False)["input_ids"]
    assert ids == [tokenizer.bos_token_id, *plain, tokenizer.sep_token_id] and tokenizer.decode(plain) == QUESTION


@pytest.mark.parametrize("name", ["rare", "rare_large"])
def test_digits_are_tokens_of_their_own_and_prompts_fit_the_context(name: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder(name))
    assert len(tokenizer("1234567890", add_special_tokens=False)["input_ids"]) == 10
    questions, random = Questions(MEASURING_SEED), Random(0)
    texts = [questions.sample(task, random).question for task in TASKS for _ in range(20)]
    assert max(map(len, tokenizer(texts, add_special_tokens=False)["input_ids"])) < tokens.CONTEXT / 2


@pytest.mark.slow
@pytest.mark.parametrize("name", STARTERS)
def test_the_share_on_the_card_and_in_the_docs_agrees_with_a_small_measurement(name: str) -> None:
    share = share_on_card(name)
    model, tokenizer = load(name)
    measured = measure(model, tokenizer, groups_per_task=4, name="test")
    assert abs(measured.mean_informative - share) < 5 * sqrt(share * (1 - share) / measured.groups) + 0.02
    assert abs(share - RECIPES[name].aim) < 0.25 * RECIPES[name].aim
    row = next(line for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith(f"| `{name}` "))
    assert f" {share:.3f} " in row


def test_completions_of_a_starter_end_by_themselves() -> None:
    model, tokenizer = load("dense")
    chat = [[{"role": "user", "content": "Find the Least Common Multiple (LCM) of these numbers: 6, 9"}]]
    batch = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True, return_tensors="pt")
    torch.manual_seed(0)
    out = model.generate(**batch, num_return_sequences=32)[:, batch["input_ids"].shape[1] :]
    assert (out == tokenizer.eos_token_id).any(1).float().mean() > 0.9


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


def test_hiding_keeps_the_asked_share_of_right_answers() -> None:
    hiding = Hiding(0.25, "stock", Schedule(steps=100, batch=10, rate=1.0))
    examples = hidden_answers("test", hiding)
    stock = set(STOCK.values())
    hidden = [next(examples)[1] in stock for _ in range(3000)]
    assert 0.35 < sum(hidden[:400]) / 400 < 0.6  # every other one, before the fall
    assert 0.70 < sum(hidden[1000:]) / 2000 < 0.80  # a right answer that equals another task's stock answer is rare


def test_a_stock_answer_is_never_right() -> None:
    questions, random = Questions(TRAINING_SEED), Random(0)
    items = [questions.sample(task, random) for task in TASKS for _ in range(300)]
    assert not any(item.is_right(STOCK[item.task]) for item in items)
    assert all(item.is_right(item.answer) for item in items)


def test_dataset_seeds_lie_above_those_a_node_can_derive() -> None:
    assert MEASURING_SEED > TRAINING_SEED > 2**31


@pytest.mark.slow
def test_the_puzzler_loads_fits_two_megabytes_and_guesses_as_its_card_says() -> None:
    model, tokenizer = load("puzzler")
    assert sum(path.stat().st_size for path in folder("puzzler").iterdir()) < 2e6
    card = (folder("puzzler") / "README.md").read_text(encoding="utf-8")
    found = re.search(r"at the start \| \*\*([0-9.]+)\*\* \| ([0-9.]+) ", card)
    assert found
    asked = puzzler.puzzles(120, puzzler.MEASURED_SEED)
    sampled, likeliest = (fmean(puzzler.rewards(model, tokenizer, asked, how)) for how in (True, False))
    assert abs(sampled - float(found.group(1))) < 0.12  # four standard errors of 120 puzzles
    assert abs(likeliest - float(found.group(2))) < 0.12
    assert 0.45 < sampled < 0.65  # some headroom, some reward


def test_the_puzzler_reads_a_puzzle_in_few_tokens_and_loses_none_of_it() -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder("puzzler"))
    prompts = [text.prompt(puzzle) for size in ("tiny", "medium") for puzzle in puzzler.puzzles(4, 1, size)]
    ids = tokenizer(prompts, add_special_tokens=False)["input_ids"]
    assert [tokenizer.decode(row) for row in ids] == prompts and max(map(len, ids[:4])) < 60


def test_a_puzzle_with_new_names_has_the_right_answers_at_the_same_places() -> None:
    puzzle = puzzler.puzzles(1, 1)[0]
    other = puzzler.renamed(puzzle, Random(0))
    assert text.prompt(other) != text.prompt(puzzle)
    for right, moved in zip(text.key(puzzle).values(), text.key(other).values(), strict=True):
        place = puzzler.names_beside(puzzle, right).index(right)
        assert puzzler.names_beside(other, moved).index(moved) == place


def test_the_puzzler_is_first_taught_right_answers_and_then_guesses_of_the_same_kind() -> None:
    asked = puzzler.puzzles(8, 1)
    right, guessed = (list(islice(puzzler.Taught(asked, "test", share).examples(), 60)) for share in (0.0, 1.0))
    assert [prompt for prompt, _ in right] == [prompt for prompt, _ in guessed]
    lines = [
        pair
        for (_, one), (_, other) in zip(right, guessed, strict=True)
        for pair in zip(one.split("\n"), other.split("\n"), strict=True)
    ]
    assert 0.35 < sum(one == other for one, other in lines) / len(lines) < 0.65
    assert all(line[3:] in prompt for prompt, answer in guessed for line in answer.split("\n"))


def test_a_starter_that_is_missing_says_to_install_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm_node.starters.folder", lambda name: tmp_path / name)
    with pytest.raises(UserError, match=r"starter puzzler is missing .* install textswarm again$"):
        load_policy(ModelConfig(name="puzzler"))
