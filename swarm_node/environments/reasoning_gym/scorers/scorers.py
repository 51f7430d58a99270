"""Scorers of ours for every data set of the catalogue: no completion reaches the library's, which execute some answers,
search others for a number, and can be made to run for minutes. A guard before them would have to parse each language.

Same rewards for right answers as the library's (a test compares), none for what says more than the answer, no
execution, bounded work, and nothing imported that a small process would not have: these run in the fork server
(`forkserver.py`), where a fork is cheap. Here are the short ones; the others are in values.py, grids.py and moves.py.
"""

import ast
import json
import math
import re
import unicodedata  # noqa: F401  Python's parser imports it for letters outside ASCII, which a sandboxed child cannot
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from swarm_node.environments.reasoning_gym.scorers import boxnet, expressions, grids, moves, values
from swarm_node.environments.reasoning_gym.scorers.reading import MAX_DIGITS, Unreadable, bare, rational, ungrouped
from swarm_node.environments.reasoning_gym.scorers.spellings import accounted, near

Scorer = Callable[[str, Mapping[str, Any]], float]  # (answer, entry) -> reward
Entry = Mapping[str, Any]  # "answer" and those parts of "metadata" that NEEDED names

_REAL = r"\d{1,60}(?:\.\d{0,60})?"
_COMPLEX = re.compile(
    rf"[+-]?\s?{_REAL}|(?:[+-]?\s?{_REAL}\s{{0,2}}[+-]\s{{0,2}}|[+-]?)(?:{_REAL})?[ij]", re.IGNORECASE
)
MAX_LITERAL = 4000  # characters: 30 ms of Python's parser
WHITE = " \t\r\n"  # what may stand around an answer, a little of it


def same_text(answer: str, entry: Entry) -> float:
    """1.0 for the key; in part for a longer answer that contains it."""
    key: str = entry["answer"]
    if answer == key:
        return 1.0
    return len(key) / len(answer) if key in answer else 0.0


def same_decimal(answer: str, entry: Entry) -> float:
    """As `same_text`, but +01,000.00 is 1000."""
    number, key = ungrouped(answer), ungrouped(entry["answer"])
    try:
        if len(number) <= MAX_DIGITS and Decimal(number) == Decimal(key):
            return 1.0
    except InvalidOperation:
        pass
    return same_text(number, {"answer": key})


def same_letters(answer: str, entry: Entry) -> float:
    """1.0 for the key, in capitals or not."""
    return float(_joined(answer) == _joined(str(entry["answer"])))


def same_words(answer: str, entry: Entry) -> float:
    """1.0 for the key with other white space."""
    return float(bool(answer.split()) and answer.split() == entry["answer"].split())


def exactly(answer: str, entry: Entry) -> float:
    """1 for the very text of the answer, else 0."""
    return float(answer == str(entry["answer"]))


def fraction(answer: str, entry: Entry) -> float:
    """a/b or LaTeX's \\frac{a}{b}, simplified; little for one that is not."""
    metadata = entry["metadata"]
    top, bottom, _ = _fraction(answer)
    if (top, bottom) == (metadata["simplified_numerator"], metadata["simplified_denominator"]):
        return 1.0
    if (top, bottom) == (metadata["numerator"], metadata["denominator"]):
        return 0.1
    return 0.05 if len(answer) <= len(entry["answer"]) else 0.0


def simplified(answer: str, entry: Entry) -> str:
    """The fraction that an answer is, written as it or the key is."""
    top, bottom, latex = _fraction(answer)
    plain = f"\\{latex}{{{top}}}{{{bottom}}}" if latex else f"{top}/{bottom}"
    return f"${plain}$" if entry["answer"][:1] == "$" == answer[:1] else plain


def prime_factors(answer: str, entry: Entry) -> float:
    """Factors in any order, with x-signs between; half for others with the same product."""
    key = _factors(entry["answer"])
    if len(answer) > MAX_DIGITS:
        return 0.0
    factors = _factors(answer)
    if factors == key:
        return 1.0
    return 0.5 if math.prod(factors) == math.prod(key) else 0.01


def binary_matrix(answer: str, entry: Entry) -> float:
    """1.0 for the matrix as text, 0.1 for the same numbers as a Python literal (a list of lists), else 0.0."""
    return _text_or_literal(answer, entry["answer"], lambda rows: "\n".join(_spaced(row) for row in rows))


def spiral_matrix(answer: str, entry: Entry) -> float:
    """1.0 for the numbers in a row, 0.1 for a Python list of them."""
    return _text_or_literal(answer.strip(), entry["answer"].strip(), _spaced)


def string_insertion(answer: str, entry: Entry) -> float:
    """1.0 for the word, 0.1 for a Python list of its letters."""
    return _text_or_literal(answer, entry["answer"], "".join)


def n_queens(answer: str, entry: Entry) -> float:
    """1.0 for any board that solves it."""
    return float(answer in entry["metadata"]["valid_answers"])


def number_sorting(answer: str, entry: Entry) -> float:
    """1.0 for the same numbers in order. The library takes any that are one apart at most, NaN included."""
    if len(answer) > 8 * len(entry["answer"]) + 64 or "+" in answer:
        return 0.0
    key = [Fraction(text) for text in ast.literal_eval(entry["answer"])]
    try:
        given = json.loads(answer.replace("'", '"'))
        return float(isinstance(given, list) and [rational(each) for each in given] == key)
    except (ValueError, TypeError, RecursionError):
        return 0.0


def complex_number(answer: str, entry: Entry) -> float:
    """1.0 for a + bi to two digits, falling with the distance."""
    value = _complex(answer)
    distance = abs(value - complex(*entry["metadata"]["result"]))
    if distance <= 0.01:
        return near(answer, entry["answer"], value == _complex(entry["answer"]))
    return math.exp(-distance) if math.isfinite(distance) else 0.0


def probability(answer: str, entry: Entry) -> float:
    """1.0 for the number, as a decimal or fraction, within 0.0001 of it or a hundredth of it, whichever is less."""
    key, given = rational(entry["answer"]), rational(ungrouped(answer))
    if abs(given - key) > min(Fraction(1, 10_000), key / 100):
        return 0.0
    return near(answer, entry["answer"], given == key)


def yes_or_no(answer: str, entry: Entry) -> float:
    """1.0 for the key, True or False, in capitals or not. The library scores any text."""
    return float(bare(answer).lower() == str(entry["answer"]).lower())


def _fraction(text: str) -> tuple[int, int, str]:
    """Numerator, denominator, and frac or dfrac if it is written in LaTeX."""
    latex = re.fullmatch(r"\\(d?frac)\s?\{\s?(\d{1,90})\s?\}\s?\{\s?(\d{1,90})\s?\}", bare(text), re.IGNORECASE)
    if latex:
        return int(latex[2]), int(latex[3]), latex[1].lower()
    plain = re.fullmatch(r"(-?\d{1,90})\s?/\s?(\d{1,90})", text.strip("$").strip())
    if plain is None:
        raise Unreadable("no fraction")
    return int(plain[1]), int(plain[2]), ""


def _complex(text: str) -> complex:
    """Of a + bi."""
    text = text[1:-1] if text[:1] == "(" and text[-1:] == ")" else text
    if not _COMPLEX.fullmatch(text):
        raise Unreadable("no complex number")
    return complex("".join(text.split()).lower().replace("i", "j"))


def _joined(text: str) -> str:
    return text.lower().strip()


def _factors(text: str) -> list[int]:
    factors = [factor.strip() for factor in text.split("×")]
    if len(factors) > 1 and not all(map(str.isdecimal, factors)):
        raise Unreadable("no factors")
    return sorted(map(int, factors))


def _spaced(row: Any) -> str:
    return " ".join(str(cell) for cell in row)


def _text_or_literal(answer: str, key: str, written: Callable[[Any], str]) -> float:
    """1.0 for the key, 0.1 for a Python literal that is it when written out."""
    if answer == key:
        return 1.0
    if len(answer) > min(8 * len(key) + 64, MAX_LITERAL):  # a literal of the same is at most five times as long
        return 0.0
    try:
        return 0.1 if written(ast.literal_eval(answer)) == key else 0.0
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return 0.0


_PLAIN = (
    "acre", "aiw", "arc_1d", "base_conversion", "basic_arithmetic", "bf", "binary_alternation", "caesar_cipher",
    "count_bits", "count_primes", "course_schedule", "gcd", "isomorphic_strings", "largest_island", "lcm",
    "leg_counting", "letter_counting", "list_functions", "mahjong_puzzle", "maze", "modulo_grid",
    "number_filtering", "number_sequence", "ransom_note", "rotate_matrix", "rotten_oranges", "simple_equations",
    "simple_geometry", "string_manipulation", "string_splitting", "string_synthesis", "syllogism",
    "word_sequence_reversal",
)  # fmt: skip

SCORERS: Mapping[str, Scorer] = dict.fromkeys(_PLAIN, same_text) | {
    "ab": exactly,
    "advanced_geometry": values.advanced_geometry,
    "binary_matrix": binary_matrix,
    "bitwise_arithmetic": values.same_integer,
    "boxnet": boxnet.boxnet,
    "calendar_arithmetic": values.calendar_arithmetic,
    "chain_sum": same_decimal,
    "circuit_logic": exactly,
    "coin_flip": probability,
    "color_cube_rotation": values.same_lower,
    "complex_arithmetic": complex_number,
    "countdown": expressions.countdown,
    "cryptarithm": moves.cryptarithm,
    "decimal_arithmetic": values.near_decimal,
    "decimal_chain_sum": values.same_rational,
    "dice": same_letters,
    "emoji_mystery": values.same_characters,
    "family_relationships": same_letters,
    "fraction_simplification": fraction,
    "futoshiki": grids.number_puzzle,
    "game_of_life": grids.game_of_life,
    "game_of_life_halting": yes_or_no,
    "graph_color": moves.graph_color,
    "gsm_symbolic": values.same_amount,
    "jugs": moves.jugs,
    "kakurasu": grids.kakurasu,
    "knights_knaves": values.knights_knaves,
    "letter_jumble": values.unjumbled,
    "manipulate_matrix": grids.same_matrix,
    "mini_sudoku": grids.number_puzzle,
    "n_queens": n_queens,
    "needle_haystack": values.without_spaces,
    "number_format": values.picked_number,
    "number_sorting": number_sorting,
    "palindrome_generation": values.palindrome,
    "palindrome_partitioning": values.partitions,
    "path_star": same_words,
    "polynomial_equations": values.real_roots,
    "polynomial_multiplication": expressions.polynomial,
    "pool_matrix": grids.pool_matrix,
    "power_function": values.three_digits,
    "prime_factorization": prime_factors,
    "products": same_decimal,
    "propositional_logic": moves.conclusion,
    "puzzle24": expressions.puzzle24,
    "quantum_lock": moves.quantum_lock,
    "rectangle_count": values.rectangle_count,
    "rubiks_cube": moves.rubiks_cube,
    "rush_hour": moves.rush_hour,
    "self_reference": exactly,
    "sentence_reordering": values.same_order,
    "shortest_path": moves.shortest_path,
    "simple_integration": expressions.antiderivative,
    "sokoban": moves.sokoban,
    "spell_backward": values.backward,
    "spiral_matrix": spiral_matrix,
    "string_insertion": string_insertion,
    "survo": grids.survo,
    "time_intervals": values.time_interval,
    "tower_of_hanoi": moves.tower_of_hanoi,
    "tsumego": values.board_move,
    "word_ladder": moves.word_ladder,
    "word_sorting": values.sorted_words,
    "zebra_puzzles": same_letters,
}

# Data sets with many right answers: each is written out again, and compared with what was said.
WRITERS: Mapping[Scorer, Callable[[str, Entry], str]] = {
    expressions.countdown: expressions.written,
    fraction: simplified,
    boxnet.boxnet: boxnet.written,
    moves.conclusion: moves.conclusion_written,
    moves.graph_color: moves.graph_color_written,
    moves.jugs: moves.jugs_written,
    moves.quantum_lock: moves.quantum_lock_written,
    moves.rubiks_cube: moves.rubiks_cube_written,
    moves.rush_hour: moves.rush_hour_written,
    moves.shortest_path: moves.words_written,
    moves.sokoban: moves.sokoban_written,
    moves.tower_of_hanoi: moves.tower_of_hanoi_written,
    moves.word_ladder: moves.word_ladder_written,
    expressions.puzzle24: expressions.written,
}

# Those that hand an answer to a parser of Python's own, which is much code in C. All others are plain: an answer is
# compared, cut into pieces, matched and read as a number, so whoever's it is may share a child (`server.cohort`).
PARSING = frozenset((
    "binary_matrix", "boxnet", "countdown", "game_of_life", "graph_color", "jugs", "number_sorting",
    "palindrome_partitioning", "polynomial_multiplication", "puzzle24", "simple_integration", "spiral_matrix",
    "string_insertion",
))  # fmt: skip
PLAIN = SCORERS.keys() - PARSING

NEEDED: Mapping[str, tuple[str, ...]] = {  # parts of an entry's metadata that a scorer reads, where it has them
    "advanced_geometry": ("task_type", "ortho"),
    "boxnet": ("initial_state",),
    "calendar_arithmetic": ("task",),
    "complex_arithmetic": ("result",),
    "countdown": ("numbers", "target"),
    "cryptarithm": ("words_letters", "result_letters", "allow_leading_zero"),
    "fraction_simplification": ("numerator", "denominator", "simplified_numerator", "simplified_denominator"),
    "futoshiki": ("solution",),
    "graph_color": ("puzzle",),
    "jugs": ("puzzle",),
    "kakurasu": ("row_sums", "col_sums", "n_rows", "n_cols"),
    "knights_knaves": ("knight_knave_terms",),
    "mini_sudoku": ("solution",),
    "n_queens": ("valid_answers",),
    "palindrome_generation": ("letters",),
    "palindrome_partitioning": ("solution",),
    "polynomial_multiplication": ("variables",),
    "propositional_logic": ("variables", "premises"),
    "puzzle24": ("numbers",),
    "quantum_lock": ("buttons", "initial_state", "initial_value", "target_value"),
    "rubiks_cube": ("cube_size", "scramble_moves"),
    "rush_hour": ("board_config",),
    "shortest_path": ("matrix",),
    "simple_integration": ("variable", "integrand"),
    "sokoban": ("gamestr",),
    "survo": ("solution",),
    "time_intervals": ("task_type",),
    "tower_of_hanoi": ("num_disks", "num_pegs", "start_peg", "target_peg", "solution_length"),
    "word_ladder": ("start_word", "end_word", "word_length"),
    "word_sorting": ("sorted_words",),
}

SETTINGS: Mapping[str, tuple[str, ...]] = {  # of a data set's configuration, beside them
    "decimal_arithmetic": ("max_num_decimal_places",),
    "polynomial_equations": ("exp_distance_factor", "penalty_missing_factor", "penalty_extra_factor"),
    "time_intervals": ("max_time_difference_seconds", "max_date_difference_days"),
}


def score_with(name: str, entry: Entry, text: str) -> float:
    """Reward of a completion by the scorer of this name: what the fork server calls."""
    return score(SCORERS[name], answer_of(text), entry)


def answer_of(text: str) -> str:
    """The text without the white space around it if that is little: pages of it, or odd signs, say something."""
    answer = text.strip(WHITE)
    begin = text.find(answer)
    return answer if max(begin, len(text) - begin - len(answer)) <= max(2, len(answer) // 4) else text


def score(scorer: Scorer, answer: str, entry: Entry) -> float:
    """What the scorer says of an answer; no more than for an empty one if the answer says more than it has to
    (`spellings.py`)."""
    reward = _scored(scorer, answer, entry)
    if reward <= 0 or accounted(answer, _written(scorer, answer, entry), reward):
        return reward
    return min(reward, _scored(scorer, "", entry))


def _scored(scorer: Scorer, answer: str, entry: Entry) -> float:
    """An answer that a scorer falls over is wrong: "I do not know" is no prime factorisation. To skip its group would
    leave a policy that generates nonsense nothing to learn from."""
    try:
        return scorer(answer, entry)
    except Exception:  # noqa: BLE001  MemoryError and RecursionError too
        return 0.0


def _written(scorer: Scorer, answer: str, entry: Entry) -> str:
    """What the answer says, as plainly as it can be written: the key, or where many answers are right, this one."""
    write = WRITERS.get(scorer)
    try:
        return write(answer, entry) if write else str(entry["answer"]).strip()
    except Exception:  # noqa: BLE001  what cannot be read says nothing
        return ""
