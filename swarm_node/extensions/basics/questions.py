"""The 24 tasks: each draws one question and its answer.

There are five families: positions in lists, comparing, arithmetic, letters, calendar.
A question is one line that ends where the answer begins; the answer is a word or a number. Shots show the form, so no
question explains itself. Each task has 130 questions or more, of which a quarter is held out (`source.py`).
"""

from collections.abc import Callable
from random import Random

Drawn = tuple[str, str]  # question, answer
Draw = Callable[[Random], Drawn]

_WORDS = """
    apple bread chair dream eagle flame grape horse image juice knife lemon mouse night ocean piano queen river
    snake table uncle voice water youth zebra beach cloud dance earth field ghost heart island jacket kitten ladder
    market needle orange pencil rabbit silver ticket violin window yellow basket candle dragon engine forest garden
    hammer insect jungle letter mirror nation office pocket rocket school temple valley winter anchor bridge castle
"""
WORDS = _WORDS.split()
HALF_A_YEAR = ("January", "February", "March", "April", "May", "June")
MONTHS = (*HALF_A_YEAR, "July", "August", "September", "October", "November", "December")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _numbers(rng: Random, count: int) -> list[int]:
    return rng.sample(range(10, 100), count)


def _list(values: list[int] | list[str]) -> str:
    return ", ".join(map(str, values))


def _position(name: str, place: int, count: int = 4) -> Draw:
    def draw(rng: Random) -> Drawn:
        values = _numbers(rng, count)
        return f"{name} of {_list(values)}:", str(values[place])

    return draw


def _word_position(name: str, place: int) -> Draw:
    def draw(rng: Random) -> Drawn:
        words = rng.sample(WORDS, 3)
        return f"{name} of {_list(words)}:", words[place]

    return draw


def _best(name: str, best: Callable[[list[int]], int], count: int) -> Draw:
    def draw(rng: Random) -> Drawn:
        values = _numbers(rng, count)
        return f"{name} of {_list(values)}:", str(best(values))

    return draw


def _is_larger(rng: Random) -> Drawn:
    one, other = _numbers(rng, 2)
    return f"is {one} larger than {other}?", "yes" if one > other else "no"


def _longer_word(rng: Random) -> Drawn:
    one = rng.choice([word for word in WORDS if len(word) == 5])
    other = rng.choice([word for word in WORDS if len(word) == 6])
    pair = rng.sample([one, other], 2)
    return f"longer of {pair[0]} and {pair[1]}:", other


def _sum(low: int, high: int) -> Draw:
    def draw(rng: Random) -> Drawn:
        one, other = rng.randint(low, high), rng.randint(low, high)
        return f"{one} + {other} =", str(one + other)

    return draw


def _difference(rng: Random) -> Drawn:
    one, other = sorted(_numbers(rng, 2), reverse=True)
    return f"{one} - {other} =", str(one - other)


def _plus_one(rng: Random) -> Drawn:
    number = rng.randint(100, 998)
    return f"after {number} comes", str(number + 1)


def _plus_ten(rng: Random) -> Drawn:
    number = rng.randint(100, 989)
    return f"{number} + 10 =", str(number + 10)


def _double(rng: Random) -> Drawn:
    number = rng.randint(10, 499)
    return f"twice {number} is", str(2 * number)


def _first_letters(rng: Random) -> Drawn:
    words = rng.sample(WORDS, 2)
    return f"first letters of {words[0]} {words[1]}:", f"{words[0][0]} {words[1][0]}"


def _starts_with(rng: Random) -> Drawn:
    words = rng.sample(WORDS, 3)
    letter = rng.choice(words)[0]
    chosen = [word for word in words if word[0] == letter]
    return f"which starts with {letter}: {_list(words)}?", chosen[0]


def _count_letter(rng: Random) -> Drawn:
    text = "".join(rng.choices("ab", k=rng.randint(6, 9)))
    return f"how many a in {text}:", str(text.count("a"))


def _upper(rng: Random) -> Drawn:
    words = rng.sample(WORDS, 2)
    return f"{words[0]} {words[1]} in capitals:", f"{words[0]} {words[1]}".upper()


def _swap(rng: Random) -> Drawn:
    words = rng.sample(WORDS, 2)
    return f"swap {words[0]} {words[1]}:", f"{words[1]} {words[0]}"


def _months_after(rng: Random) -> Drawn:
    start, step = rng.randrange(12), rng.randint(1, 11)
    return f"{step} months after {MONTHS[start]}:", MONTHS[(start + step) % 12]


def _month_of(rng: Random) -> Drawn:
    month = rng.randint(1, 12)
    return f"month of {rng.randint(1, 28):02}/{month:02}:", MONTHS[month - 1]


def _earlier(rng: Random) -> Drawn:
    (one, day), (other, another) = [(month, rng.randint(1, 28)) for month in rng.sample(range(12), 2)]
    dates = [f"{day} {MONTHS[one]}", f"{another} {MONTHS[other]}"]
    return f"earlier of {dates[0]} and {dates[1]}:", dates[0] if one < other else dates[1]


def _day_before(rng: Random) -> Drawn:
    day, time = rng.randrange(7), f"{rng.randint(0, 23):02}:{rng.choice(['00', '15', '30', '45'])}"
    return f"a day before {DAYS[day]} {time}:", f"{DAYS[day - 1]} {time}"


TASKS: dict[str, Draw] = {
    "first": _position("first", 0),
    "second": _position("second", 1),
    "third": _position("third", 2),
    "last": _position("last", -1, 5),
    "second_word": _word_position("second", 1),
    "larger": _best("larger", max, 2),
    "smaller": _best("smaller", min, 2),
    "largest": _best("largest", max, 4),
    "is_larger": _is_larger,
    "longer_word": _longer_word,
    "add_digits": _sum(1, 99),
    "subtract": _difference,
    "next": _plus_one,
    "plus_ten": _plus_ten,
    "double": _double,
    "first_letters": _first_letters,
    "starts_with": _starts_with,
    "count_letter": _count_letter,
    "capitals": _upper,
    "swap": _swap,
    "months_after": _months_after,
    "month_of": _month_of,
    "earlier": _earlier,
    "day_before": _day_before,
}
