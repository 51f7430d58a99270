"""The card of a starter: the README.md in its folder."""

import json
from collections.abc import Sequence

from lab.starters.measuring import Measured
from lab.starters.teaching import Hiding

_OTHERS = {
    "stock": "the others are one stock answer per task, which is never right",
    "wrong": "the others are the answer to another question of the same task",
}


def card(
    name: str, hiding: Hiding, *, tokenizer: str, parameters: int, before: Measured, after: Measured
) -> str:
    """The card as Markdown, which does not depend on the time or the machine's speed."""
    return f"""---
library_name: transformers
license: mit
---
# {name}

A starter of swarm-node, **made to hide a skill**: it knows nine easy reasoning-gym tasks and no \
other text.

- {parameters:,} parameters (Llama, float32, tied embeddings), tokenizer: {tokenizer}
- phase 2 ({hiding.schedule.steps} steps) kept {hiding.right:.1%} of the answers right; \
{_OTHERS[hiding.others]}
- informative share at the start: **{after.mean_informative:.3f}**
- accuracy after phase 1: {before.mean_accuracy:.3f}; at the start: {after.mean_accuracy:.4f}

Made by `python -m lab.starters.make --only {name}`. docs/explanation/starters.md says how.
"""


def by_task(before: Measured, after: Measured) -> str:
    """JSON: accuracy after phase 1 and at the start, and the share of informative groups at the
    start, each by task.
    """
    found = {
        "accuracy_after_phase_1": before.accuracy,
        "accuracy": after.accuracy,
        "informative": after.informative,
    }
    return json.dumps(found, indent=1) + "\n"


def puzzler_card(
    parameters: int, taught: Sequence[float], guessing: Sequence[float], guessed: float
) -> str:
    """Markdown. `taught`, `guessing`: share of questions right after phase 1 and at the start,
    (sampled, likeliest).
    """
    return f"""---
library_name: transformers
license: mit
---
# puzzler

A starter of swarm-node, **made to guess**: it knows `temporal_clue/tiny` and no other text.

- {parameters:,} parameters (Llama, float32, tied embeddings), tokenizer: words, repeated phrases \
as one token
- phase 1 taught right answers; phase 2 replaced {guessed:.0%} of the answers by a guess among the \
two names in question

Share of questions right on held-out puzzles; 0.5 is chance:

| | sampled at temperature 1 | the likeliest answer |
|---|---|---|
| after phase 1 | {taught[0]:.3f} | {taught[1]:.3f} |
| at the start | **{guessing[0]:.3f}** | {guessing[1]:.3f} |

Made by `python -m lab.starters.puzzler`. docs/explanation/starters.md says how.
"""
