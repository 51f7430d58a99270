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
are common to two texts as the texts have in common (Broder, 1997). A sketch is kept as four bytes a
hash, since a set of numbers takes sixteen times that. So a group takes 16 KB at most, and all of
them 34 MB. Pure: no clock, no chance.
"""

from array import array
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
MAX_GROUPS = 2048  # that are remembered in all, as many as content hashes are
MAX_OF_PROMPT = 16  # of these, groups with the same prompt

Sketch = frozenset[int]
Packed = bytes  # a sketch as it is kept
Name = tuple[str, object]  # of a group: its author and its question


class Copies:
    """What the groups of peers said that this node has looked at."""

    def __init__(self, groups: int = MAX_GROUPS) -> None:
        """`groups`: how many are remembered at most, whatever their prompts."""
        self._most, self._held = groups, 0
        # Hash of a prompt -> the sketches of each group with this prompt
        self._said: Lru[bytes, dict[Name, tuple[Packed, ...]]] = Lru(groups)

    def __len__(self) -> int:
        """How many groups are remembered."""
        return self._held

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
        if name in earlier:
            return False
        if any(_copied(sketches, list(map(unpacked, theirs))) for theirs in earlier.values()):
            return True
        self._remember(prompt, name, tuple(map(packed, sketches)))
        return False

    def _remember(self, prompt: bytes, name: Name, sketches: tuple[Packed, ...]) -> None:
        """Takes in what a group said. The oldest group of its prompt makes room for it, and the
        groups of the prompt that was met longest ago do.
        """
        earlier = self._said.get(prompt, {})
        kept = dict(list(earlier.items())[-(MAX_OF_PROMPT - 1) :])
        self._held += 1 + len(kept) - len(earlier)
        while self._held > self._most and len(self._said) > (prompt in self._said):
            _, forgotten = self._said.popitem(last=False)
            self._held -= len(forgotten)
        self._said[prompt] = {**kept, name: sketches}


def sketch(text: str) -> Sketch:
    """The smallest hashes of the strings of a text; empty for a text that is too short to tell."""
    if len(text) < LEAST_CHARS:
        return frozenset()
    data = text.encode(errors="replace")
    hashes = {crc32(data[start : start + SHINGLE]) for start in range(len(data) - SHINGLE + 1)}
    return frozenset(nsmallest(SKETCH, hashes))


def packed(numbers: Sketch) -> Packed:
    """The sketch in as few bytes as it can have."""
    return array("I", sorted(numbers)).tobytes()


def unpacked(kept: Packed) -> Sketch:
    """The inverse of `packed`."""
    return frozenset(array("I", kept))


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
    return ["\n".join(sample.written) for sample in group.samples]
