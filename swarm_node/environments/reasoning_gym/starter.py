"""The nine tasks of the starters as a source of questions that needs no library.

A starter is what `run` trains where nothing better is at hand, and reasoning-gym takes a C compiler
to install. So its nine smallest tasks (`STARTER` in catalogue.py) are made here once more: the same
address has the same text, the same answer and the same facts for its scorer, since a test compares
thousands of them with the library's. A node that has the library and one that has not therefore
score each other's groups.

Each generator draws from the same stream in the same order as the library's, and so also draws
where a setting leaves it no choice. What is known of that order comes from the library's source.
The code is our own. The sentences of the questions are the library's, word for word, since they
must be: reasoning-gym 0.1.25, https://github.com/open-thought/reasoning-gym, by its authors, under
the Apache License 2.0 (`LICENSES/Apache-2.0.txt`). REUSE.toml says so, too.
"""

from collections.abc import Callable, Mapping
from math import gcd, lcm
from random import Random
from typing import Any

from swarm_node.environments.reasoning_gym.catalogue import STARTER, VERSION
from swarm_node.environments.reasoning_gym.drawing import first_on_its_side
from swarm_node.environments.reasoning_gym.scorers.scorers import SCORERS, score_with

version = VERSION
TRIES = 3  # of gcd and lcm, to find numbers that have a factor in common
TWO_TERMS = {"min_terms": 2, "max_terms": 2}  # of products: the library's own default
ATTEMPTS, MOST = 10, 1000  # of number_sequence, to find terms of at most this size

Settings = Mapping[str, Any]
Facts = Mapping[str, Any]
Made = tuple[str, str, Facts]  # question, answer, and what a scorer may read of it


class StarterItem:
    """One question, and what its scorer needs to know."""

    def __init__(self, dataset: str, seed: int, index: int) -> None:
        rng, settings = Random(seed + index), STARTER[dataset]
        self.prompt, self.answer, facts = GENERATORS[dataset](rng, settings)
        known = {key: facts[key] for key in SCORERS[dataset].needs}
        self.portable = (dataset, {"answer": self.answer, "metadata": known})

    def score(self, text: str) -> float:
        return score_with(*self.portable, text)


def build(dataset: str, config_id: str, seed: int, index: int) -> StarterItem:
    """The question at this address. Raises KeyError for a task that is none of the starters'."""
    if config_id != "tiny":
        raise KeyError(f"{dataset}/{config_id}")
    return first_on_its_side(
        dataset, config_id, seed, index, lambda drawn: StarterItem(dataset, drawn, index)
    )


def _within(rng: Random, settings: Settings, what: str) -> int:
    """A number between two settings."""
    return rng.randint(settings[f"min_{what}"], settings[f"max_{what}"])


def _numbers(rng: Random, settings: Settings) -> list[int]:
    """Some numbers, none of them negative. Numbers of one digit begin at 0."""
    count = _within(rng, settings, "terms")
    digits = _within(rng, settings, "digits")
    least = 10 ** (digits - 1) if digits > 1 else 0
    return [rng.randint(least, 10**digits - 1) for _ in range(count)]


def _chain_sum(rng: Random, settings: Settings) -> Made:
    total, *rest = _numbers(rng, settings)
    text = str(total)
    signs = [rng.choice("+-") for _ in rest]
    for sign, number in zip(signs, rest, strict=True):
        text = f"{text} {sign} {number}"
        total += number if sign == "+" else -number
    return f"State the final answer to the following arithmetic problem: {text} =", str(total), {}


def _products(rng: Random, settings: Settings) -> Made:
    numbers = _numbers(rng, {**TWO_TERMS, **settings})
    product = 1
    for number in numbers:
        product *= number
    text = " * ".join(map(str, numbers))
    return (
        f"Solve the following multiplication: {text}. Give only the result as your final answer.",
        str(product),
        {},
    )


def _operands(rng: Random, settings: Settings) -> list[int]:
    count = _within(rng, settings, "numbers")
    return [_within(rng, settings, "value") for _ in range(count)]


def _gcd(rng: Random, settings: Settings) -> Made:
    for _ in range(TRIES):
        numbers = _operands(rng, settings)
        divisor = gcd(*numbers)
        if divisor > 1:
            break
    listed = ", ".join(map(str, numbers))
    return (
        f"Find the Greatest Common Divisor (GCD) of these numbers: {listed}. "
        "Give only the GCD as your final answer.",
        str(divisor),
        {},
    )


def _lcm(rng: Random, settings: Settings) -> Made:
    for _ in range(TRIES):
        numbers = _operands(rng, settings)
        multiple, product = lcm(*numbers), 1
        for number in numbers:
            product *= number
        if multiple < product:
            break
    listed = ", ".join(map(str, numbers))
    return (
        f"Find the Least Common Multiple (LCM) of these numbers: {listed}",
        str(multiple),
        {},
    )


def _count_bits(rng: Random, settings: Settings) -> Made:
    number = _within(rng, settings, "n")
    return (
        f"How many 1 bits are there in the binary representation of the number {number}?",
        str(number.bit_count()),
        {},
    )


def _fraction_simplification(rng: Random, settings: Settings) -> Made:
    one = _within(rng, settings, "value")
    other = _within(rng, settings, "value")
    common = gcd(one, other)
    top, bottom = sorted((one // common, other // common))
    factor = _within(rng, settings, "factor")
    rng.randint(0, len(settings["styles"]) - 1)
    facts = {
        "numerator": top * factor,
        "denominator": bottom * factor,
        "simplified_numerator": top,
        "simplified_denominator": bottom,
    }
    return (
        f"Simplify the fraction {top * factor}/{bottom * factor} to its lowest terms. "
        "Give only the simplified fraction as your final answer.",
        f"{top}/{bottom}",
        facts,
    )


def _base_conversion(rng: Random, settings: Settings) -> Made:
    value = _within(rng, settings, "value")
    source = _within(rng, settings, "base")
    target = source
    while target == source:
        target = _within(rng, settings, "base")
    question = (
        "Your task is to convert a number between two different bases.\n\n"
        "If the target base is > 10, use lowercase letters a-z for digits above 9.\n\n"
        f"Now, convert the {_base(source)} number {_digits(value, source)} to {_base(target)}\n"
    )
    return question, _digits(value, target), {}


def _base(base: int) -> str:
    return "binary" if base == 2 else f"base-{base}"


def _digits(value: int, base: int) -> str:
    written = ""
    while value:
        value, digit = divmod(value, base)
        written = f"{digit}{written}"
    return written


Step = Callable[[int, int, int], int]  # the number so far, a drawn number, the term before
STEPS: tuple[tuple[Step, bool], ...] = (  # in the library's order; whether a number is drawn for it
    (lambda number, drawn, before: number + drawn, True),
    (lambda number, drawn, before: number * drawn, True),
    (lambda number, drawn, before: number * number, False),
    (lambda number, drawn, before: number * 2, False),
    (lambda number, drawn, before: number // 2, False),
    (lambda number, drawn, before: number + before, False),
    # Two kinds that change nothing where a rule has no rules below it
    (lambda number, drawn, before: number, False),
    (lambda number, drawn, before: number, False),
)


def _rule(rng: Random, complexity: int) -> list[tuple[Step, int]]:
    """What leads from one term to the next."""
    rule = []
    for _ in range(rng.randint(1, complexity + 1)):
        step, takes_number = rng.choice(STEPS)
        number = 0
        while takes_number and number == 0:
            number = rng.randint(-10, 10)
        rule.append((step, number))
    return rule


def _number_sequence(rng: Random, settings: Settings) -> Made:
    complexity = rng.randint(1, settings["max_complexity"])
    for _ in range(ATTEMPTS):
        rule = _rule(rng, complexity)
        count = _within(rng, settings, "terms")
        terms = [rng.randint(-10, 10)]
        for _ in range(count):
            before = terms[-2] if len(terms) > 1 else 0
            term = terms[-1]
            for step, number in rule:
                term = step(term, number, before)
            terms.append(term)
        if len(set(terms)) > 1 and max(map(abs, terms)) <= MOST:
            break
    else:
        terms = [2 * place for place in range(count + 1)]
    *shown, last = terms
    return f"{', '.join(map(str, shown))}, ?", str(last), {}


def _prime_factorization(rng: Random, settings: Settings) -> Made:
    number = _within(rng, settings, "value")
    rest, divisor, factors = number, 2, []
    while rest > 1:
        if rest % divisor:
            divisor += 1
        else:
            factors.append(divisor)
            rest //= divisor
    return (
        f"Find the prime factorization of {number}. Write the factors separated by × "
        "(Example: for 12 the answer would be: 2 × 2 × 3)",
        " × ".join(map(str, factors)),
        {},
    )


GENERATORS: Mapping[str, Callable[[Random, Settings], Made]] = {
    "chain_sum": _chain_sum,
    "products": _products,
    "gcd": _gcd,
    "lcm": _lcm,
    "count_bits": _count_bits,
    "fraction_simplification": _fraction_simplification,
    "base_conversion": _base_conversion,
    "number_sequence": _number_sequence,
    "prime_factorization": _prime_factorization,
}
