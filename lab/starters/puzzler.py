"""Make the starter `puzzler`: python -m lab.starters.puzzler [--out FOLDER]

A Llama of 0.4 million parameters that knows tiny Temporal Clue puzzles. Phase 1 teaches right
answers until the model deduces much better than chance; phase 2 teaches it to guess most answers
among the names in question, so that sampled groups differ in reward; see
docs/explanation/starters.md. The puzzles have seeds that no node uses (2^32 and above).
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import torch
from tokenizers import AddedToken

from lab.starters import tokens
from lab.starters.card import puzzler_card
from lab.starters.make import Shape, new_model, show
from lab.starters.teaching import Example, Schedule, teach
from swarm_node.environments.temporal_clue import puzzle_file, text
from swarm_node.environments.temporal_clue.generate import Puzzle, generate
from swarm_node.environments.temporal_clue.sizes import ROOMS, SUSPECTS, WEAPONS
from swarm_node.environments.temporal_clue.worlds import DIRECTIONS
from swarm_node.starters import folder

NAME, SIZE = "puzzler", "tiny"
SEED = 2**32  # of the puzzles that are taught
MEASURED_SEED = SEED + 1
PUZZLES = 8_000  # each taught several times, with new names
MEASURED = 2_000
GUESSED = 0.7  # probability that phase 2 replaces a right answer by a guess
NEW_TOKENS = 12  # an answer has seven tokens
SHAPE = Shape(
    96, 4, 4, 192, "bpe", Schedule(steps=1000, batch=64, rate=3e-3, optimizer="muon", chunk=64)
)
GUESSING = Schedule(steps=100, batch=64, rate=1e-3, chunk=64)
# For the tokenizer; and a quarter as many of each larger size, so that it knows their words too
TEXTS = 400

# Each phrase that tiny prompts repeat is one token. So a prompt has 30 tokens and an answer 7; with
# words alone they would have 137 and 12. The text of a puzzle is the one that other models get.
_REPEATED = (
    " was in the same room as",
    *(f" was one room {direction} of" for direction in DIRECTIONS),
    " was in the",
    " if and only if",
    ", but not both",
    "\nSuspects:",
    ". Weapons:",
    "A.",
    "\nB.",
    "\nC.",
)


def tokenizer_of(prompts: list[str], larger: list[str]) -> Any:
    """Words of all prompts; the lines that all of `prompts` have, and `_REPEATED`, are a token
    each.
    """
    tokenizer = tokens.bpe([*prompts, *larger])
    added = [
        AddedToken(phrase, normalized=False) for phrase in (*common_lines(prompts), *_REPEATED)
    ]
    tokenizer.add_tokens(added)
    return tokenizer


def common_lines(prompts: list[str]) -> list[str]:
    """Runs of lines that every prompt has, with their line ends."""
    lines = [prompt.splitlines(keepends=True) for prompt in prompts]
    common = set.intersection(*map(set, lines))
    return ["".join(run) for shared, run in groupby(lines[0], common.__contains__) if shared]


@dataclass(frozen=True)
class Taught:
    """Puzzles to teach, with new names each time, and how often an answer is a guess."""

    puzzles: list[Puzzle]
    stream: str  # of random numbers
    guessed: float = 0.0

    def examples(self) -> Iterator[Example]:
        """Prompts and answers without end, some of the answers guessed."""
        random = Random(self.stream)
        while True:
            puzzle = renamed(random.choice(self.puzzles), random)
            lines = []
            for letter, right in text.key(puzzle).items():
                guess = random.choice(names_beside(puzzle, right))
                lines.append(f"{letter}. {guess if random.random() < self.guessed else right}")
            yield text.prompt(puzzle), "\n".join(lines)


def renamed(puzzle: Puzzle, random: Random) -> Puzzle:
    """The same puzzle with other people, weapons and rooms."""
    setting = puzzle.setting
    setting = replace(
        setting,
        suspects=tuple(random.sample(SUSPECTS, len(setting.suspects))),
        weapons=tuple(random.sample(WEAPONS, len(setting.weapons))),
        rooms=tuple(random.sample(ROOMS, len(setting.rooms))),
    )
    return replace(puzzle, setting=setting)


def names_beside(puzzle: Puzzle, name: str) -> tuple[str, ...]:
    """The names from which a guess for this answer is drawn, the right one included."""
    setting = puzzle.setting
    return next(
        names for names in (setting.suspects, setting.weapons, setting.rooms) if name in names
    )


@torch.no_grad()
def rewards(
    model: Any, tokenizer: Any, puzzles: list[Puzzle], sampled: bool = True, seed: int = 0
) -> list[float]:
    """Share of questions right for each puzzle, one completion each: sampled at temperature 1, or
    the likeliest.
    """
    chats = [[{"role": "user", "content": text.prompt(puzzle)}] for puzzle in puzzles]
    batch = tokenizer.apply_chat_template(
        chats, add_generation_prompt=True, padding=True, return_dict=True, return_tensors="pt"
    )
    torch.manual_seed(seed)
    how = (
        {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
        if sampled
        else {"do_sample": False}
    )
    out = model.generate(**batch, **how, max_new_tokens=NEW_TOKENS)
    answers = tokenizer.batch_decode(
        out[:, batch["input_ids"].shape[1] :], skip_special_tokens=True
    )
    return [
        puzzle_file.score(answer, text.key(puzzle), puzzle.setting.names)
        for answer, puzzle in zip(answers, puzzles, strict=True)
    ]


def puzzles(count: int, seed: int, size: str = SIZE) -> list[Puzzle]:
    """The first `count` puzzles of a seed."""
    return [generate(size, seed, index) for index in range(count)]


def main() -> None:
    """Makes puzzles, tokenizer and model, teaches both phases, measures, and writes the folder."""
    parser = argparse.ArgumentParser(prog="python -m lab.starters.puzzler", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=folder(NAME).parent, help="where the folder goes"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    started = time.process_time()
    taught, held_out = puzzles(PUZZLES, SEED), puzzles(MEASURED, MEASURED_SEED)
    show(f"{PUZZLES} puzzles after {time.process_time() - started:.0f} s")
    larger = [
        text.prompt(puzzle)
        for size in ("small", "medium")
        for puzzle in puzzles(TEXTS // 4, SEED, size)
    ]
    tokenizer = tokenizer_of([text.prompt(puzzle) for puzzle in taught[:TEXTS]], larger)
    model = new_model(SHAPE, tokenizer, NAME)
    model.generation_config.max_new_tokens = NEW_TOKENS
    show(f"{NAME}: {model.num_parameters():,} parameters, {len(tokenizer)} tokens")
    shares = []
    for phase, guessed, schedule in ((1, 0.0, SHAPE.schedule), (2, GUESSED, GUESSING)):
        teach(
            model,
            tokenizer,
            Taught(taught, f"{NAME}/phase {phase}", guessed).examples(),
            schedule,
            show,
        )
        shares.append(
            [fmean(rewards(model, tokenizer, held_out, sampled)) for sampled in (True, False)]
        )
        show(
            f"phase {phase}: share right {shares[-1][0]:.3f} sampled, {shares[-1][1]:.3f} likeliest"
        )
    model.save_pretrained(options.out / NAME)
    tokens.save(tokenizer, options.out / NAME)
    # Safetensors writes it for its owner alone
    (options.out / NAME / "model.safetensors").chmod(0o644)
    card = puzzler_card(model.num_parameters(), shares[0], shares[1], GUESSED)
    (options.out / NAME / "README.md").write_text(card, encoding="utf-8")
    show(f"done in {(time.process_time() - started) / 60:.1f} min of CPU time")


if __name__ == "__main__":
    main()
