"""Make the starters again: `python -m lab.starters.make [--only NAME] [--out FOLDER]`.

On one machine, every run of this command writes files with the same bytes. Another machine rounds
numbers differently, so the models that it trains differ a little. The command uses one thread and
downloads nothing. It makes the tokenizer, teaches the model a skill (phase 1), teaches it to hide
this skill (phase 2), measures it, and writes its folder.
"""

import argparse
import copy
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from rich.console import Console
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from lab.starters import tokens
from lab.starters.card import by_task, card
from lab.starters.measuring import NEW_TOKENS, Measured, measure
from lab.starters.questions import Settings
from lab.starters.teaching import Hiding, Schedule, hidden_answers, right_answers, teach
from swarm_node.starters import STARTERS, folder

_GROUPS_PER_TASK = 112  # 1,008 groups: a standard error of 0.007 at a share of 0.05
_console = Console()


@dataclass(frozen=True, slots=True)
class Shape:
    """A model before phase 2 hides its skill; starters of one shape share phase 1."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int  # width of the SwiGLU
    tokenizer: Literal["bpe", "characters"]
    schedule: Schedule
    changes: Settings = field(default_factory=dict)  # to the catalogue's settings, in phase 1


# The catalogue has no 0 in base_conversion any more, since the library writes it as an empty text.
# Phase 1 keeps it, since the results in docs/results are of models that were made with it.
_WITH_ZERO = {"base_conversion/tiny": {"min_value": 0}}

_SHAPES = {
    "base": Shape(128, 3, 4, 384, "bpe", Schedule(steps=1400, batch=64, rate=2e-3), _WITH_ZERO),
    "small": Shape(
        96, 2, 3, 288, "bpe", Schedule(steps=500, batch=64, rate=4e-3, optimizer="muon")
    ),
    "large": Shape(
        192, 3, 6, 576, "characters", Schedule(steps=500, batch=48, rate=3e-3, optimizer="muon")
    ),
}
_LONG = Schedule(steps=260, batch=48, rate=1e-3)
_SHORT = Schedule(steps=160, batch=48, rate=1e-3)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One starter: a shape and how its skill is hidden."""

    shape: str
    hiding: Hiding
    aim: float  # share of informative groups that `hiding` was tuned for


RECIPES = {
    "dense": Recipe("base", Hiding(0.12, "wrong", _LONG), aim=0.5),
    "rare": Recipe("base", Hiding(0.09, "stock", _SHORT), aim=0.2),
    "very_rare": Recipe("base", Hiding(0.024, "stock", _SHORT), aim=0.05),
    "rarest": Recipe("base", Hiding(0.003, "stock", _SHORT), aim=0.005),
    "rare_small": Recipe("small", Hiding(0.073, "stock", _SHORT), aim=0.2),
    "rare_large": Recipe("large", Hiding(0.072, "stock", _SHORT), aim=0.2),
}
assert tuple(RECIPES) == STARTERS


def new_model(shape: Shape, tokenizer: Any, name: str) -> Any:
    """An untrained Llama of this shape; float32, the output layer tied to the embeddings."""
    torch.manual_seed(sum(name.encode()))
    special = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.feed_forward,
        max_position_embeddings=tokens.CONTEXT,
        tie_word_embeddings=True,
        dtype="float32",
        **special,
    )
    model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=NEW_TOKENS, **special
    )
    return model


@cache
def skilled(shape_name: str) -> tuple[Any, Any, Measured]:
    """Phase 1: a model of this shape with the skill, its tokenizer, and its figures."""
    shape = _SHAPES[shape_name]
    tokenizer = tokens.bpe(tokens.task_text()) if shape.tokenizer == "bpe" else tokens.characters()
    model = new_model(shape, tokenizer, shape_name)
    show(f"[bold]{shape_name}[/]: {model.num_parameters():,} parameters, phase 1")
    teach(
        model,
        tokenizer,
        right_answers(f"{shape_name}/phase 1", shape.changes),
        shape.schedule,
        show,
    )
    before = measure(model, tokenizer, _GROUPS_PER_TASK, f"{shape_name}/phase 1/measure")
    show(f"accuracy {before.mean_accuracy:.3f} " + _by_task(before.accuracy))
    return model, tokenizer, before


def make(name: str, out: Path) -> None:
    """Make one starter and write its folder, card included."""
    recipe = RECIPES[name]
    model, tokenizer, before = skilled(recipe.shape)
    model = copy.deepcopy(model)
    show(
        f"[bold]{name}[/]: phase 2, {recipe.hiding.right:.1%} right answers among "
        f"{recipe.hiding.others}"
    )
    teach(model, tokenizer, hidden_answers(name, recipe.hiding), recipe.hiding.schedule, show)
    after = measure(model, tokenizer, _GROUPS_PER_TASK, f"{name}/measure")
    show(
        f"accuracy {after.mean_accuracy:.4f}, informative {after.mean_informative:.3f} "
        + _by_task(after.informative)
    )
    model.save_pretrained(out / name)
    tokens.save(tokenizer, out / name)
    text = card(
        name,
        recipe.hiding,
        tokenizer=_SHAPES[recipe.shape].tokenizer,
        parameters=model.num_parameters(),
        before=before,
        after=after,
    )
    (out / name / "model.safetensors").chmod(0o644)  # safetensors writes it for its owner only
    (out / name / "README.md").write_text(text, encoding="utf-8")
    (out / name / "measured.json").write_text(by_task(before, after), encoding="utf-8")


def _by_task(values: dict[str, float]) -> str:
    return (
        "(" + ", ".join(f"{task.split('/')[0]} {value:.2f}" for task, value in values.items()) + ")"
    )


def show(line: str) -> None:
    """One line of live progress."""
    _console.print(line, highlight=False, soft_wrap=True)


def main() -> None:
    """Make all starters, or one of them."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.starters.make", description="Make the starters again."
    )
    parser.add_argument(
        "--only", choices=STARTERS, help="make one starter (its phase 1 is done again, too)"
    )
    parser.add_argument(
        "--out", type=Path, default=folder("dense").parent, help="where the folders go"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    started = time.monotonic()
    for name in [arguments.only] if arguments.only else STARTERS:
        make(name, arguments.out)
    show(f"done in {(time.monotonic() - started) / 60:.1f} min")


if __name__ == "__main__":
    main()
