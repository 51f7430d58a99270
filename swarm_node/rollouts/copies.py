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

A peer chooses what it writes, and so which hashes its texts have: each of its texts may differ
from each other one as late as it likes. So all is bounded by count. A group of 64 completions is
compared with MAX_OF_PROMPT_TEXTS others at most, in one pass over two short lists for each pair;
and what is remembered is MAX_TEXTS sketches of 4 bytes a hash. Where there is no room, what says
most goes first, so that nobody pushes out many groups of others by one of its own.
"""

from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from heapq import nsmallest
from zlib import crc32

from swarm_node.rollouts.groups import Group

LEAST_CHARS = 40  # of a completion that is compared
SHINGLE = 5  # characters: who changes one in five to evade this writes a text of its own
SKETCH = 64  # hashes that are kept of a completion
ALIKE = 0.7  # share of hashes in common from which two completions are near copies
COPIED = 0.5  # share of near copies from which a group is one
MAX_PROMPTS = 2048  # that are remembered, as many as content hashes are
MAX_TEXTS = 8 * MAX_PROMPTS  # completions that are remembered in all: 5 MB
MAX_OF_PROMPT = 16  # groups with the same prompt that are remembered
MAX_OF_PROMPT_TEXTS = 8 * MAX_OF_PROMPT  # ... and their completions

Sketch = Sequence[int]  # ascending
Places = Mapping[int, int]  # of the hashes of a sketch
Name = tuple[str, object]  # of a group: its author and its question
Said = dict[Name, tuple[Sketch, ...]]  # by groups with one prompt, the newest last


class Copies:
    """What the groups of peers said that this node has looked at."""

    def __init__(self, prompts: int = MAX_PROMPTS, texts: int = MAX_TEXTS) -> None:
        # Hash of a prompt -> the sketches of each group with this prompt; the prompt that was met
        # last is the last
        self._said: OrderedDict[bytes, Said] = OrderedDict()
        self._prompts, self._texts = prompts, texts
        self.held = 0  # sketches that are remembered

    def is_copy(self, group: Group) -> bool:
        """Whether an earlier group said nearly the same to the same prompt. If none did, this one
        is remembered. A group that was looked at before is no copy of itself.
        """
        sketches = tuple(filter(None, map(sketch, _texts(group))))
        if not sketches or not group.prompt:
            return False
        prompt = blake2b(group.prompt.encode(errors="replace"), digest_size=16).digest()
        name = (group.author, group.question)
        earlier = self._said.get(prompt, {})
        others = [theirs for other, theirs in earlier.items() if other != name]
        mine = list(map(_places, sketches))
        if name not in earlier and any(_copied(mine, theirs) for theirs in others):
            self._said.move_to_end(prompt)
            return True
        self._remember(prompt, _with_room({**earlier, name: sketches}))
        return False

    def _remember(self, prompt: bytes, said: Said) -> None:
        """Notes what groups said to a prompt, in place of what was noted before."""
        self._forget(self._said.pop(prompt, {}))
        self._said[prompt] = said
        self.held += _count(said)
        while len(self._said) > 1 and (len(self._said) > self._prompts or self.held > self._texts):
            self._forget(self._said.popitem(last=False)[1])

    def _forget(self, said: Said) -> None:
        self.held -= _count(said)


def sketch(text: str) -> Sketch:
    """The smallest hashes of the strings of a text; empty for a text that is too short to tell."""
    if len(text) < LEAST_CHARS:
        return array("I")
    data = text.encode(errors="replace")
    hashes = {crc32(data[start : start + SHINGLE]) for start in range(len(data) - SHINGLE + 1)}
    return array("I", nsmallest(SKETCH, hashes))


def alike(one: Sketch, other: Sketch) -> bool:
    """Whether two texts are near copies."""
    return _alike(_places(one), other)


def _places(sketch: Sketch) -> Places:
    return {number: place for place, number in enumerate(sketch)}


def _alike(places: Places, other: Sketch) -> bool:
    """Whether a text, by the places in its sketch, and another one are near copies: whether of the
    SKETCH smallest hashes of both together enough stand in both.
    """
    common = 0
    for place, number in enumerate(other):
        if (mine := places.get(number)) is None:
            continue
        # So many hashes of both are smaller than this one
        if mine + place - common >= SKETCH:
            break
        common += 1
    together = min(SKETCH, len(places) + len(other) - common)
    return common >= ALIKE * together


def _copied(mine: Sequence[Places], earlier: Sequence[Sketch]) -> bool:
    """Whether enough of these texts are near copies, each of another one of the earlier ones."""
    left = list(earlier)
    copies = 0
    for places in mine:
        twin = next((at for at, theirs in enumerate(left) if _alike(places, theirs)), None)
        if twin is not None:
            del left[twin]
            copies += 1
    return copies >= COPIED * len(mine)


def _with_room(said: Said) -> Said:
    """What is remembered of the groups of a prompt: the newest, and of the others as many as there
    is room for. Those that say most go first, the oldest of them before others.
    """
    *names, newest = said
    names = names[-(MAX_OF_PROMPT - 1) :]
    room = MAX_OF_PROMPT_TEXTS - len(said[newest])
    while names and sum(len(said[name]) for name in names) > room:
        names.remove(max(names, key=lambda name: len(said[name])))
    return {name: said[name] for name in (*names, newest)}


def _count(said: Said) -> int:
    return sum(map(len, said.values()))


def _texts(group: Group) -> list[str]:
    return ["\n".join(sample.free_texts) for sample in group.samples]
