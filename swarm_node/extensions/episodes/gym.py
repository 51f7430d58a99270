"""Questions of `second_try` for a scoring process: it imports the library."""

from swarm_node.environments.reasoning_gym import source
from swarm_node.extensions.episodes.second_try import PREFIX, SecondTry, probe, turns, version

__all__ = ["begin", "probe", "turns", "version"]


def begin(dataset: str, config_id: str, seed: int, index: int) -> SecondTry:
    """See `source.build`."""
    item = source.build(dataset.removeprefix(PREFIX), config_id, seed, index)
    return SecondTry(item.prompt, *item.portable)
