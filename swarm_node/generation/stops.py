"""Strings that end a completion. Peers get its text without them, except those that belong to the
text, such as the end of a call. The tokens that spell such a string are trained on.
"""

from collections.abc import Sequence

from protocol.limits import MAX_EPISODE_CHARS
from protocol.messages import Episode
from swarm_node.common.batched import paired
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.groups import Skipped
from swarm_node.rollouts.transcript import CALLED

MARGIN = 4  # more tokens than the longest string has bytes: a character may be spread over some


class Stops:
    """Finds the first of some strings in what a policy wrote, also where it spans tokens.

    The host looks for them after each block of tokens. If the newest token of a row holds the last
    character of a string, it decodes the last few tokens. If these contain a string, it decodes the
    whole row, which decides.
    """

    def __init__(self, policy: Policy, texts: Sequence[str], *, calls: bool = False) -> None:
        """`calls`: a call ends a completion, too, and stays in its text."""
        self._policy, self.texts = policy, (*texts, *[CALLED] * calls)
        self._last = {text[-1] for text in self.texts} | {"�"}  # the latter: a part of a character
        longest = max((len(text.encode()) for text in self.texts), default=0)
        self._tail = longest + MARGIN  # tokens in which one of the strings fits
        self._closing: dict[int, bool] = {}  # by token: whether it may end one of the strings

    def __bool__(self) -> bool:
        return bool(self.texts)

    def end(self, ids: Sequence[int]) -> bool:
        """Whether the last of these tokens completes one of the strings."""
        newest = ids[-1]
        if newest not in self._closing:
            self._closing[newest] = not self._last.isdisjoint(self._decoded([newest]))
        if not self._closing[newest]:
            return False
        # The end of the text first, since it is quick to decode
        tail = ids[-self._tail :]
        return self._in(self._decoded(tail)) and self._in(self._decoded(ids))

    def completions(self, group: Sequence[Sequence[int]]) -> tuple[Episode, ...] | Skipped:
        """Text and end of each completion of a group, from its tokens: both EOS and a string end
        one. An end is a flag, not text, even if the tokenizer does not count EOS as special.
        """
        ends = [self._end_of(ids) for ids in group]
        without_eos = [list(ids[:end]) for ids, end in paired(group, ends)]
        texts = self._policy.decode(without_eos)
        cut = [self._cut(text) for text in texts]
        if max(len(text) for text, _ in cut) > MAX_EPISODE_CHARS:
            return Skipped("completion longer than the protocol allows")
        episodes: list[Episode] = []
        for (ids, end), (text, stopped) in paired(paired(group, ends), cut):
            episodes.append(Episode.of(text=text, ended=stopped or end < len(ids)))
        return tuple(episodes)

    def _end_of(self, ids: Sequence[int]) -> int:
        """How many of these tokens are text: all but an EOS token after them."""
        return len(ids) - (ids[-1] in self._policy.eos_ids)

    def _in(self, text: str) -> bool:
        return any(stop in text for stop in self.texts)

    def _cut(self, text: str) -> tuple[str, bool]:
        """The text up to the first of the strings, and whether one is in it."""
        starts = [(text.find(stop), stop) for stop in self.texts if stop in text]
        if not starts:
            return text, False
        start, stop = min(starts)
        end = start + len(stop) if stop == CALLED else start
        return text[:end], True

    def _decoded(self, ids: Sequence[int]) -> str:
        return self._policy.decode([list(ids)])[0]
