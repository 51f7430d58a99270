"""Our own scorers for every data set of the catalogue. No completion reaches the library's, which
execute some answers, search others for a number, and can be made to run for minutes. A guard before
them would have to parse each language.

Right answers get the library's rewards (a test compares them), text beyond the answer gets none.
The scorers execute nothing, do bounded work, and import nothing that a small process would not
have: they run in the fork server (`children.py`), where a fork is cheap.
"""

import json
import unicodedata  # noqa: F401  Python's parser imports it for letters outside ASCII, which a sandboxed child cannot
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import NamedTuple

from swarm_node.environments.reasoning_gym.scorers import expressions, grids, logic, values
from swarm_node.environments.reasoning_gym.scorers.reading import (
    amount,
    bare,
    bounded_json,
    rational,
    ungrouped,
    whole_rows,
)
from swarm_node.environments.reasoning_gym.scorers.spellings import accounted
from swarm_node.environments.reasoning_gym.scorers.values import (
    Entry,
    Score,
    close,
    equal,
    in_place,
    literal,
    lower,
)
from swarm_node.scoring.bound import answer_of, longest, same_number


def _key(answer: str, entry: Entry) -> str:
    return str(entry["answer"]).strip()


class Scorer(NamedTuple):
    """How answers of one data set are scored."""

    score: Score
    # Parts of an entry's metadata that it reads, where the entry has them
    needs: tuple[str, ...] = ()
    # The answer at its plainest; where many are right, the given one
    written: Callable[[str, Entry], str] = _key
    # What it reads of the data set's configuration, beside the metadata
    settings: tuple[str, ...] = ()
    # Whether it hands an answer to a parser of Python's own, which is much C code
    parses: bool = False


_PLAIN = (
    "acre", "aiw", "arc_1d", "base_conversion", "basic_arithmetic", "bf", "binary_alternation",
    "caesar_cipher", "count_bits", "count_primes", "course_schedule", "gcd", "isomorphic_strings",
    "largest_island", "lcm", "leg_counting", "letter_counting", "list_functions", "mahjong_puzzle",
    "maze", "modulo_grid", "number_filtering", "number_sequence", "ransom_note", "rotate_matrix",
    "rotten_oranges", "simple_equations", "simple_geometry", "string_manipulation",
    "string_splitting", "string_synthesis", "syllogism", "word_sequence_reversal",
)  # fmt: skip

SCORERS: Mapping[str, Scorer] = dict.fromkeys(_PLAIN, Scorer(values.same_text)) | {
    "ab": Scorer(equal(str)),
    "advanced_geometry": Scorer(values.advanced_geometry, ("task_type", "ortho")),
    "binary_matrix": Scorer(literal(lambda rows: "\n".join(map(values.spaced, rows))), parses=True),
    "bitwise_arithmetic": Scorer(equal(values.based_integer)),
    "calendar_arithmetic": Scorer(values.calendar_arithmetic, ("task",)),
    "chain_sum": Scorer(values.same_decimal),
    "circuit_logic": Scorer(equal(str)),
    "coin_flip": Scorer(
        close(
            lambda answer: rational(ungrouped(answer)),
            lambda distance, key, entry: distance <= min(Fraction(1, 10_000), key / 100),
        )
    ),
    "color_cube_rotation": Scorer(equal(str.lower, wrong=0.01)),
    "complex_arithmetic": Scorer(values.complex_number, ("result",)),
    "countdown": Scorer(
        expressions.countdown, ("numbers", "target"), expressions.written, parses=True
    ),
    "cryptarithm": Scorer(
        grids.cryptarithm, ("words_letters", "result_letters", "allow_leading_zero")
    ),
    "decimal_arithmetic": Scorer(
        close(
            rational,
            lambda distance, key, entry: (
                distance <= Fraction(1, 10 ** entry["metadata"]["max_num_decimal_places"])
            ),
        ),
        settings=("max_num_decimal_places",),
    ),
    "decimal_chain_sum": Scorer(equal(rational)),
    "dice": Scorer(equal(lower)),
    "emoji_mystery": Scorer(in_place(str, wrong=0.01)),
    "family_relationships": Scorer(equal(lower)),
    "fraction_simplification": Scorer(
        values.fraction,
        ("numerator", "denominator", "simplified_numerator", "simplified_denominator"),
        values.fraction_written,
    ),
    "futoshiki": Scorer(grids.number_puzzle, ("solution",)),
    "game_of_life": Scorer(grids.game_of_life, parses=True),
    # The library scores any text
    "game_of_life_halting": Scorer(equal(lambda answer: bare(answer).lower())),
    "graph_color": Scorer(
        grids.graph_color,
        ("puzzle",),
        lambda answer, entry: json.dumps(bounded_json(answer)),
        parses=True,
    ),
    # The library takes the first number it finds
    "gsm_symbolic": Scorer(equal(amount, wrong=0.01)),
    "kakurasu": Scorer(grids.kakurasu, ("row_sums", "col_sums", "n_rows", "n_cols")),
    "knights_knaves": Scorer(values.knights_knaves, ("knight_knave_terms",)),
    "letter_jumble": Scorer(values.unjumbled),
    "manipulate_matrix": Scorer(grids.same_matrix),
    "mini_sudoku": Scorer(grids.number_puzzle, ("solution",)),
    "n_queens": Scorer(grids.n_queens, ("valid_answers",)),
    "needle_haystack": Scorer(equal(lambda answer: answer.replace(" ", "").lower())),
    "number_format": Scorer(
        close(
            lambda answer: rational(ungrouped(answer)),
            lambda distance, key, entry: distance < Fraction(1, 100),
        )
    ),
    "number_sorting": Scorer(values.number_sorting, parses=True),
    "palindrome_generation": Scorer(values.palindrome, ("letters",)),
    "palindrome_partitioning": Scorer(values.partitions, ("solution",), parses=True),
    "path_star": Scorer(equal(str.split)),
    "polynomial_equations": Scorer(
        values.real_roots,
        settings=("exp_distance_factor", "penalty_missing_factor", "penalty_extra_factor"),
    ),
    "polynomial_multiplication": Scorer(expressions.polynomial, ("variables",), parses=True),
    "pool_matrix": Scorer(grids.pool_matrix),
    "power_function": Scorer(values.three_digits),
    "prime_factorization": Scorer(values.prime_factors),
    "products": Scorer(values.same_decimal),
    "propositional_logic": Scorer(
        logic.conclusion, ("variables", "premises"), lambda answer, entry: logic.written(answer)
    ),
    "puzzle24": Scorer(expressions.puzzle24, ("numbers",), expressions.written, parses=True),
    "rectangle_count": Scorer(values.rectangle_count),
    "self_reference": Scorer(equal(str)),
    "sentence_reordering": Scorer(in_place(values.lower_words, wrong=0.05)),
    "simple_integration": Scorer(
        expressions.antiderivative, ("variable", "integrand"), parses=True
    ),
    "spell_backward": Scorer(values.backward),
    "spiral_matrix": Scorer(
        lambda answer, entry: literal(values.spaced)(answer.strip(), entry), parses=True
    ),
    "string_insertion": Scorer(literal("".join), parses=True),
    "survo": Scorer(equal(lambda answer: whole_rows(bare(answer)))),
    "time_intervals": Scorer(
        values.time_interval,
        ("task_type",),
        settings=("max_time_difference_seconds", "max_date_difference_days"),
    ),
    "tsumego": Scorer(values.board_move),
    "word_sorting": Scorer(values.sorted_words, ("sorted_words",)),
    "zebra_puzzles": Scorer(equal(lower)),
}

# Scorers that only compare, split and match texts, and read numbers. One child may score texts of
# all authors with them (`server.cohort`).
PLAIN = frozenset(name for name, scorer in SCORERS.items() if not scorer.parses)


def score_with(name: str, entry: Entry, text: str) -> float:
    """Reward of a completion by the scorer of this name: what the fork server calls. White space
    around an answer counts for the bound of `scoring/bound.py`, too.
    """
    scorer, answer = SCORERS[name], answer_of(text)
    reward = score(scorer, answer, entry)
    if reward <= 0 or len(text) <= longest(_written(scorer, answer, entry)):
        return reward
    return min(reward, _scored(scorer, "", entry))


def score(scorer: Scorer, answer: str, entry: Entry) -> float:
    """The scorer's reward of an answer, but no more than that of an empty one if the answer says
    more than it has to (`spellings.py`). Where the key is a number, another way to write it is the
    key.
    """
    if same_number(answer, key := _key(answer, entry)):
        answer = key
    reward = _scored(scorer, answer, entry)
    if reward <= 0 or accounted(answer, _written(scorer, answer, entry), reward):
        return reward
    return min(reward, _scored(scorer, "", entry))


def _scored(scorer: Scorer, answer: str, entry: Entry) -> float:
    """The scorer's reward. An answer at which the scorer raises is wrong: "I do not know" is no
    prime factorisation. Were its group skipped, a policy that generates nonsense would have nothing
    to learn from.
    """
    try:
        return scorer.score(answer, entry)
    except Exception:  # noqa: BLE001  MemoryError and RecursionError too
        return 0.0


def _written(scorer: Scorer, answer: str, entry: Entry) -> str:
    try:
        return scorer.written(answer, entry)
    except Exception:  # noqa: BLE001  what cannot be read says nothing
        return ""
