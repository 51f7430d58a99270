"""An objective that knows what no peer could prove: the log-probs with which another node generated its tokens.

All nodes of a simulated arm share a process, which remembers them for the others. With them `decoupled` weighs a peer's
token by how much likelier it is here than it was there, at most by 5: truncated importance sampling. Without, that
ratio is one. The import changes how the process trains; a study names this file as its objective.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from swarm_node.policy.batch import TokenGroup
from swarm_node.training.objectives import decoupled

generator: Any = import_module("swarm_node.generation.generator")
trainer: Any = import_module("swarm_node.training.trainer")
KNOWN: dict[tuple[tuple[int, ...], tuple[int, ...]], list[float]] = {}  # by ids of the prompt and of the completion
COUNTS = {True: 0, False: 0}  # completions of others, by whether they were found
NAMED = f"{Path(__file__).resolve()}:decoupled"


def remembering(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(completions: Any, tokens: Sequence[Any], prompt: tuple[int, ...]) -> Any:
        KNOWN.update({(prompt, tuple(each.ids)): list(each.log_probs) for each in tokens})
        return make(completions, tokens, prompt)

    return made


def recalling(tokenise: Callable[..., Any]) -> Callable[..., Any]:
    def tokenised(*arguments: Any) -> Any:
        found = tokenise(*arguments)
        if not isinstance(found, TokenGroup):
            return found
        prompt, behaviour = tuple(found.prompt_ids), list(found.behaviour)
        for number, ids in enumerate(found.completion_ids):
            if found.external[number]:
                behaviour[number] = KNOWN.get((prompt, tuple(ids)))
                COUNTS[behaviour[number] is not None] += 1
        assert COUNTS[False] <= 0.05 * COUNTS[True], f"log-probs are missing: {COUNTS}"
        return replace(found, behaviour=behaviour)

    return tokenised


if not hasattr(generator, "REMEMBERS"):  # each node loads this file anew
    generator.REMEMBERS, generator.GeneratedGroup = True, remembering(generator.GeneratedGroup)
    trainer.tokenise = recalling(trainer.tokenise)

__all__ = ["NAMED", "decoupled"]
