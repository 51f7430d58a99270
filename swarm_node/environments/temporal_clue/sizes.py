"""How large a puzzle is, by config id. Parameters never travel: all peers know them by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from swarm_node.environments.temporal_clue.worlds import Setting

DRAWS = "1"  # of what is drawn from an address: names, sizes, clues, wording
# The same of the puzzles of `full`, which have no addresses: 2 has the published generator's biases
FULL_DRAWS = "2"
SCORER = "2"  # of which completions are paid
VERSION = f"{DRAWS}.{SCORER}"  # of all that an address determines

SUSPECTS = ("Alma", "Bruno", "Clara", "Dorian", "Edith", "Felix", "Greta", "Hugo", "Iris", "Jonas")
WEAPONS = ("knife", "rope", "pistol", "poison", "hammer", "axe", "poker", "scarf")
ROOMS = (
    "kitchen", "library", "study", "hall", "cellar", "attic", "garden", "chapel", "gallery",
    "pantry", "nursery", "parlour", "terrace", "tower", "stable", "bedroom", "ballroom",
)  # fmt: skip
MOTIVES = (
    "greed",
    "envy",
    "revenge",
    "fear",
    "pride",
    "love",
    "debt",
    "anger",
    "ambition",
    "spite",
)

Range = tuple[int, int]  # both ends included


@dataclass(frozen=True)
class Size:
    """Ranges that a puzzle's numbers are drawn from, evenly."""

    suspects: Range = (2, 2)
    weapons: Range = (2, 2)
    rooms: Range = (2, 2)
    times: Range = (1, 1)
    motives: bool = False
    questions: int = 3  # at most; those about the murder first
    # Whether a clue may tell a part of the solution, which is then not a question
    told: bool = False
    # Draw the numbers, and weigh the clues, as the published generator does, from so many players
    players: Range | None = None
    # Whether it has addresses: only if every puzzle can be made within the time for prompts
    shared: bool = True
    draws: str = DRAWS  # version of what is drawn for a puzzle of this size


SIZES: Mapping[str, Size] = {
    "tiny": Size(),
    "small": Size(rooms=(3, 4), suspects=(2, 3)),
    "medium": Size((3, 3), (2, 2), (3, 4), (2, 2), motives=True, questions=6),
    "large": Size(
        (4, 6), (3, 4), (5, 8), (2, 4), motives=True, questions=8, told=True, shared=False
    ),
    "full": Size(players=(1, 6), questions=8, told=True, shared=False, draws=FULL_DRAWS),
}


def draw_setting(size: Size, rng: Random) -> Setting:
    """A cast, a place and a time table of this size."""
    if size.players is None:
        suspects = rng.randint(*size.suspects)
        weapons = rng.randint(*size.weapons)
        rooms = rng.randint(*size.rooms)
        times = rng.randint(*size.times)
        motives = rng.randint(2, suspects) if size.motives else 0
    else:
        players = rng.randint(*size.players)
        drawn = players + rng.randint(-1, 5)
        weapons = max(2, min(drawn, len(WEAPONS)))
        suspects = min(weapons + rng.randint(0, weapons - 1), len(SUSPECTS))
        rooms = min(suspects + rng.randint(0, suspects - 2), len(ROOMS))
        times = rng.randint(1, 2 * players)
        motives = suspects if rng.random() < 0.5 else rng.randint(1, suspects)
    if motives < 2:  # with one motive there is no question
        motives = 0
    counts = _shares(suspects, motives, rng)
    return Setting(
        tuple(rng.sample(SUSPECTS, suspects)),
        tuple(rng.sample(WEAPONS, weapons)),
        tuple(rng.sample(ROOMS, rooms)),
        _columns(rooms, rng),
        _times(times, rng),
        tuple(rng.sample(MOTIVES, motives)),
        counts,
    )


def _shares(suspects: int, motives: int, rng: Random) -> tuple[int, ...]:
    """How many suspects have each motive: at least one, the others by chance."""
    counts = [1] * motives
    for _ in range(suspects - motives if motives else 0):
        counts[rng.randrange(motives)] += 1
    return tuple(counts)


def _columns(rooms: int, rng: Random) -> int:
    """Columns of a map that is about square."""
    root = round(rooms**0.5)
    columns: int = rng.choice([k for k in (root, root + 1) if k <= rooms])
    return columns


def _times(count: int, rng: Random) -> tuple[str, ...]:
    """`count` times of one evening, in steps of 15, 30 or 60 minutes; one of them is midnight."""
    step = rng.choice((15, 30, 60))
    first = 24 * 60 - step * rng.randint(0, count - 1)
    return tuple(_clock(first + step * k) for k in range(count))


def _clock(minutes: int) -> str:
    hour, minute = divmod(minutes % (24 * 60), 60)
    return f"{hour % 12 or 12}:{minute:02d} {'AM' if hour < 12 else 'PM'}"
