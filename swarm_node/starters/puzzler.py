"""Make the starter `puzzler`: python -m swarm_node.starters.puzzler [--out FOLDER]

A model of 0.3 million parameters that was shown right answers to tiny Temporal Clue puzzles, and stopped early: it
knows the form of an answer and some of how clues work. Nothing is hidden in it; what reinforcement adds is its own.
About three minutes on one free core, no download. The puzzles have seeds that no node asks (2^32 and above).
"""

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch

from swarm_node.environment.temporal_clue import text
from swarm_node.environment.temporal_clue.generate import generate
from swarm_node.starters import tokens
from swarm_node.starters.make import Shape, new_model, say
from swarm_node.starters.teaching import Example, Schedule, teach

NAME, SIZE = "puzzler", "tiny"
FIRST_SEED = 2**32
PUZZLES = 5_000  # taught again and again
SHAPE = Shape(96, 2, 3, 288, "bpe", Schedule(steps=300, batch=64, rate=4e-3, optimizer="muon"))
TOKENIZER_TEXTS = 400  # of every size, so that larger puzzles are words too


def examples(config_id: str, count: int) -> list[Example]:
    """Prompts with their right answers."""
    made = []
    for index in range(count):
        puzzle = generate(config_id, FIRST_SEED, index)
        made.append((text.prompt(puzzle), "\n".join(f"{k}. {name}" for k, name in text.key(puzzle).items())))
        if (index + 1) % 2000 == 0:
            say(f"{index + 1} puzzles")
    return made


def again_and_again(taught: list[Example]) -> Iterator[Example]:
    while True:
        yield from taught


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m swarm_node.starters.puzzler", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="where the folder goes")
    parser.add_argument("--steps", type=int, default=SHAPE.schedule.steps)
    parser.add_argument("--puzzles", type=int, default=PUZZLES)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    taught = examples(SIZE, options.puzzles)
    texts = [prompt for prompt, _ in islice(taught, TOKENIZER_TEXTS)]
    texts += [prompt for size in ("small", "medium") for prompt, _ in examples(size, TOKENIZER_TEXTS // 4)]
    tokenizer = tokens.bpe(texts)
    model = new_model(SHAPE, tokenizer, NAME)
    lengths = [len(tokenizer(prompt)["input_ids"]) for prompt, _ in taught[:200]]
    say(f"{NAME}: {model.num_parameters():,} parameters, {len(tokenizer)} tokens, prompts of {max(lengths)} at most")
    schedule = Schedule(options.steps, SHAPE.schedule.batch, SHAPE.schedule.rate, SHAPE.schedule.optimizer)
    teach(model, tokenizer, again_and_again(taught), schedule, say)
    model.generation_config.max_new_tokens = 24
    model.save_pretrained(options.out / NAME)
    tokens.save(tokenizer, options.out / NAME)


if __name__ == "__main__":
    main()
