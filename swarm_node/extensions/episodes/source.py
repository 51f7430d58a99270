"""Questions of `episodes` for a scoring process.

Held-out questions are apart from all others by text: an address draws until it has a question of its own side.
"""

from collections.abc import Callable, Mapping
from random import Random

from protocol.addressing import is_held_out, is_held_out_text
from swarm_node.extensions.episodes import bisect, calculator
from swarm_node.scoring.contract import Call, Episode, Turn

version = "1"
turns = 6
_DRAWS: Mapping[str, Callable[[str, Random], Episode]] = {"bisect": bisect.draw, "calculator": calculator.draw}
tasks = {"bisect": tuple(bisect.GUESSES), "calculator": tuple(calculator.SIZES)}
probe = (
    Turn("", (Call("calculate", '{"expression": "-2 * (3 - 0.5) / 7"}'), Call("calculate", "{}"), Call("x", "1"))),
    Turn("", (Call("calculate", '{"expression": "1 / (2 - 2)"}'),)),
    Turn("100"),
    Turn("seven"),
    Turn(" 7\n"),
)


def begin(dataset: str, config_id: str, seed: int, index: int) -> Episode:
    """The question at this address. KeyError for an unknown data set."""
    rng, held_out = Random(f"{dataset}/{config_id}/{seed}/{index}"), is_held_out(seed)
    while True:
        episode = _DRAWS[dataset](config_id, rng)
        if is_held_out_text(episode.prompt) == held_out:
            return episode
