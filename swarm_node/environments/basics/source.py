"""Questions of `basics` for a scoring process. Each of the 24 tasks draws one question and its
answer.

There are five families: positions in lists, comparing, arithmetic, letters, calendar. A question is
one line that ends where the answer begins; the answer is a word or a number. Shots show the form,
so no question explains itself. Each task has 130 questions or more, of which a quarter is held out.

Held-out questions differ from all others by text, not by address alone: a hash of its text says
whether a question is held out, and an address draws until it has a question of its own side.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from random import Random
from typing import Any

from protocol.addressing import is_held_out, is_held_out_text
from swarm_node.scoring.bound import WHITE, same_number

version = "2"
SHOTS = {"few": 4, "more": 8}  # by config id: without them no question explains itself
Drawn = tuple[str, str]  # question, answer
Draw = Callable[[Random], Drawn]

_WORDS = """
    apple bread chair dream eagle flame grape horse image juice knife lemon mouse night ocean piano
    queen river snake table uncle voice water youth zebra beach cloud dance earth field ghost heart
    island jacket kitten ladder market needle orange pencil rabbit silver ticket violin window
    yellow basket candle dragon engine forest garden hammer insect jungle letter mirror nation
    office pocket rocket school temple valley winter anchor bridge castle
"""
WORDS = _WORDS.split()
NUMBERS = range(10, 100)
HALF_A_YEAR = ("January", "February", "March", "April", "May", "June")
MONTHS = (*HALF_A_YEAR, "July", "August", "September", "October", "November", "December")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _of(
    name: str, things: Sequence[int] | Sequence[str], count: int, pick: Callable[[Any], int | str]
) -> Draw:

    def draw(rng: Random) -> Drawn:
        values = rng.sample(things, count)
        return f"{name} of {_list(values)}:", str(pick(values))

    return draw


def _number(low: int, high: int, question: str, answer: Callable[[int], int]) -> Draw:
    def draw(rng: Random) -> Drawn:
        number = rng.randint(low, high)
        return question.format(number), str(answer(number))

    return draw


def _two_words(question: str, answer: Callable[[str, str], str]) -> Draw:
    def draw(rng: Random) -> Drawn:
        words = rng.sample(WORDS, 2)
        return question.format(*words), answer(*words)

    return draw


def _list(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


def _is_larger(rng: Random) -> Drawn:
    one, other = rng.sample(NUMBERS, 2)
    return f"is {one} larger than {other}?", "yes" if one > other else "no"


def _longer_word(rng: Random) -> Drawn:
    one = rng.choice([word for word in WORDS if len(word) == 5])
    other = rng.choice([word for word in WORDS if len(word) == 6])
    pair = rng.sample([one, other], 2)
    return f"longer of {pair[0]} and {pair[1]}:", other


def _sum(rng: Random) -> Drawn:
    one, other = rng.randint(1, 99), rng.randint(1, 99)
    return f"{one} + {other} =", str(one + other)


def _difference(rng: Random) -> Drawn:
    one, other = sorted(rng.sample(NUMBERS, 2), reverse=True)
    return f"{one} - {other} =", str(one - other)


def _starts_with(rng: Random) -> Drawn:
    words = rng.sample(WORDS, 3)
    letter = rng.choice(words)[0]
    chosen = [word for word in words if word[0] == letter]
    return f"which starts with {letter}: {_list(words)}?", chosen[0]


def _count_letter(rng: Random) -> Drawn:
    text = "".join(rng.choices("ab", k=rng.randint(6, 9)))
    return f"how many a in {text}:", str(text.count("a"))


def _months_after(rng: Random) -> Drawn:
    start, step = rng.randrange(12), rng.randint(1, 11)
    return f"{step} months after {MONTHS[start]}:", MONTHS[(start + step) % 12]


def _month_of(rng: Random) -> Drawn:
    month = rng.randint(1, 12)
    return f"month of {rng.randint(1, 28):02}/{month:02}:", MONTHS[month - 1]


def _earlier(rng: Random) -> Drawn:
    one, other = rng.sample(range(12), 2)
    day, another = rng.randint(1, 28), rng.randint(1, 28)
    dates = [f"{day} {MONTHS[one]}", f"{another} {MONTHS[other]}"]
    return f"earlier of {dates[0]} and {dates[1]}:", dates[0] if one < other else dates[1]


def _day_before(rng: Random) -> Drawn:
    day, time = rng.randrange(7), f"{rng.randint(0, 23):02}:{rng.choice(['00', '15', '30', '45'])}"
    return f"a day before {DAYS[day]} {time}:", f"{DAYS[day - 1]} {time}"


TASKS: dict[str, Draw] = {
    "first": _of("first", NUMBERS, 4, itemgetter(0)),
    "second": _of("second", NUMBERS, 4, itemgetter(1)),
    "third": _of("third", NUMBERS, 4, itemgetter(2)),
    "last": _of("last", NUMBERS, 5, itemgetter(-1)),
    "second_word": _of("second", WORDS, 3, itemgetter(1)),
    "larger": _of("larger", NUMBERS, 2, max),
    "smaller": _of("smaller", NUMBERS, 2, min),
    "largest": _of("largest", NUMBERS, 4, max),
    "is_larger": _is_larger,
    "longer_word": _longer_word,
    "add_digits": _sum,
    "subtract": _difference,
    "next": _number(100, 998, "after {} comes", lambda number: number + 1),
    "plus_ten": _number(100, 989, "{} + 10 =", lambda number: number + 10),
    "double": _number(10, 499, "twice {} is", lambda number: 2 * number),
    "first_letters": _two_words(
        "first letters of {} {}:", lambda one, other: f"{one[0]} {other[0]}"
    ),
    "starts_with": _starts_with,
    "count_letter": _count_letter,
    "capitals": _two_words("{} {} in capitals:", lambda one, other: f"{one} {other}".upper()),
    "swap": _two_words("swap {} {}:", lambda one, other: f"{other} {one}"),
    "months_after": _months_after,
    "month_of": _month_of,
    "earlier": _earlier,
    "day_before": _day_before,
}


@dataclass(frozen=True, slots=True)
class Exercise:
    """One question."""

    prompt: str
    answer: str

    def score(self, text: str) -> float:
        said = text.strip(WHITE)
        right = said == self.answer or same_number(said, self.answer)
        return float(right and len(text) <= len(said) + 2)


def build(dataset: str, config_id: str, seed: int, index: int) -> Exercise:
    """The question at this address: the first that its generator draws on the asked side. KeyError
    for an unknown data set.
    """
    rng, held_out = Random(f"{dataset}/{seed}/{index}"), is_held_out(seed)
    while True:
        question, answer = TASKS[dataset](rng)
        if is_held_out_text(question) == held_out:
            return Exercise(question, answer)
