"""Near copies: groups that say what another group said to the same question.

A content hash knows a group again as long as no byte of it differs. So a peer could send a group a
hundred times with one character changed, or send another author's completions under its own name,
and each copy would be trained on. This file knows both by what they say:

- An author answers a question once. Its second group for the same question is left, whatever it
  says and however long ago the first came, as long as names are remembered.
- Of two groups with the same prompt, by whomever, the second is left where at least half of its
  completions are near copies of completions of the first: where most of the strings of
  SHINGLE characters of one stand in the other too. Prompts are compared as this node rebuilt them,
  since one question can stand at many addresses.

Honest peers ask the same questions too, and short answers are the same by chance. So completions
under LEAST_CHARS characters say nothing either way, and nobody is charged: a copy is left like a
group that teaches nothing. Of honest groups only those are left that would teach what another one
has taught already.

A completion is compared by a sketch: the SKETCH smallest hashes of its strings, of which as many
are common to two texts as the texts have in common (Broder, 1997). Pure: no clock, no chance.
"""

from collections.abc import Sequence
from hashlib import blake2b
from heapq import nsmallest
from zlib import crc32

from swarm_node.common.lru import Lru
from swarm_node.rollouts.groups import Group

LEAST_CHARS = 40  # of a completion that is compared
SHINGLE = 5  # characters: who changes one in five to evade this writes a text of its own
SKETCH = 64  # hashes that are kept of a completion
ALIKE = 0.7  # share of hashes in common from which two completions are near copies
COPIED = 0.5  # share of near copies from which a group is one
MAX_GROUPS = 2048  # that are remembered, as many as content hashes are
MAX_OF_PROMPT = 16  # of these, groups with the same prompt

Sketch = frozenset[int]
Name = tuple[str, object]  # of a group: its author and its question


class Copies:
    """What the groups of peers said that this node has looked at."""

    def __init__(self, groups: int = MAX_GROUPS) -> None:
        # Hash of a prompt -> the sketches of each group with this prompt
        self._said: Lru[bytes, dict[Name, tuple[Sketch, ...]]] = Lru(groups)

    def is_copy(self, group: Group) -> bool:
        """Whether an earlier group said nearly the same to the same prompt. If none did, this one
        is remembered. A group that was looked at before is no copy of itself.
        """
        sketches = tuple(filter(None, map(sketch, _texts(group))))
        if not sketches or not group.prompt:
            return False
        prompt = blake2b(group.prompt.encode(errors="replace"), digest_size=16).digest()
        name = (group.author, group.question)
        earlier = self._said.use(prompt) or {}
        others = [theirs for other, theirs in earlier.items() if other != name]
        if name not in earlier and any(_copied(sketches, theirs) for theirs in others):
            return True
        kept = dict(list(earlier.items())[-(MAX_OF_PROMPT - 1) :])
        self._said[prompt] = {**kept, name: sketches}
        return False


def sketch(text: str) -> Sketch:
    """The smallest hashes of the strings of a text; empty for a text that is too short to tell."""
    if len(text) < LEAST_CHARS:
        return frozenset()
    data = text.encode(errors="replace")
    hashes = {crc32(data[start : start + SHINGLE]) for start in range(len(data) - SHINGLE + 1)}
    return frozenset(nsmallest(SKETCH, hashes))


def alike(one: Sketch, other: Sketch) -> bool:
    """Whether two texts are near copies."""
    if len(one & other) < ALIKE / 2 * min(len(one), len(other)):
        return False  # as nearly always, and cheap: one author may send 64 texts
    smallest = nsmallest(SKETCH, one | other)
    common = sum(number in one and number in other for number in smallest)
    return common >= ALIKE * len(smallest)


def _copied(sketches: Sequence[Sketch], earlier: Sequence[Sketch]) -> bool:
    left = list(earlier)
    copies = 0
    for mine in sketches:
        twin = next((theirs for theirs in left if alike(mine, theirs)), None)
        if twin is not None:
            left.remove(twin)
            copies += 1
    return copies >= COPIED * len(sketches)


def _texts(group: Group) -> list[str]:
    return ["\n".join(sample.free_texts) for sample in group.samples]
