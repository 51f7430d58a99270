"""Which reasoning-gym questions exist in the swarm: dataset -> config id -> parameters of
`create_dataset`.

Pure data. All peers know a configuration by its id; parameters never travel.
lab/studies/catalogue_survey.py measured the levels in catalogue.json. `tiny` are the tasks of the
starter policies, `paper` those of the SAPO paper, `easy`, `medium` and `hard` levels 0, 1 and 2 of
the library's curricula, `default` the library's defaults.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LIBRARY = "0.1.25"  # version of reasoning-gym: a few datasets differ between versions
# Part of an address: the library's version, and ours of how addresses lead to questions and of
# which completions are paid. Raise it with every change of either, here and nowhere else: a peer of
# another version is refused and counted, never scored by another question.
VERSION = f"{LIBRARY}-3"

STARTER: Mapping[str, Mapping[str, Any]] = {  # small enough for a policy of a million parameters
    "chain_sum": {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1},
    "products": {"min_digits": 1, "max_digits": 1},
    "gcd": {"min_numbers": 2, "max_numbers": 2, "min_value": 1, "max_value": 24},
    "lcm": {"min_numbers": 2, "max_numbers": 2, "min_value": 1, "max_value": 9},
    "count_bits": {"min_n": 1, "max_n": 63},
    "fraction_simplification": {
        "min_value": 1,
        "max_value": 6,
        "min_factor": 2,
        "max_factor": 4,
        "styles": ("plain",),
    },
    # 0 would be an empty text
    "base_conversion": {"min_base": 2, "max_base": 5, "min_value": 1, "max_value": 31},
    "number_sequence": {
        "min_terms": 4,
        "max_terms": 4,
        "min_value": -9,
        "max_value": 9,
        "max_complexity": 1,
    },
    "prime_factorization": {"min_value": 2, "max_value": 60},
}

# The nine tasks of the SAPO paper, at the settings published with its code: datasets.yaml of
# genrl's example rgym, the same file in the releases 0.1.6 to 0.3.0. Its seeds and sizes are left
# out, since an address has its own. Every published setting stands here, also those that are the
# library's defaults: so a new default changes no question.
PAPER: Mapping[str, Mapping[str, Any]] = {
    "arc_1d": {"min_size": 10, "max_size": 30, "num_train": 3},
    "basic_arithmetic": {
        "min_terms": 2,
        "max_terms": 6,
        "min_digits": 1,
        "max_digits": 4,
        "operators": ("+", "-", "*", "/"),
        "allow_parentheses": True,
        "allow_negation": True,
        "format_style": "natural",
        "whitespace": "single",
    },
    "base_conversion": {"min_base": 2, "max_base": 16, "min_value": 0, "max_value": 1000},
    "bf": {"difficulty": 1},
    "binary_matrix": {"min_n": 3, "max_n": 10, "p_zero": 0.25},
    "calendar_arithmetic": {
        "year": 2023,
        "offset_upper_bound": 100,
        "leap_year_range": 200,
        "tasks": ("count_days", "weekday_of_date", "is_leap_year", "recurring_event_day"),
    },
    "decimal_arithmetic": {
        "min_terms": 2,
        "max_terms": 6,
        "min_num_decimal_places": 1,
        "max_num_decimal_places": 3,
        "precision": 5,
    },
    "fraction_simplification": {
        "min_value": 1,
        "max_value": 100,
        "min_factor": 2,
        "max_factor": 100,
        "styles": ("plain", "latex_frac", "latex_dfrac"),
    },
    "propositional_logic": {
        "min_vars": 2,
        "max_vars": 4,
        "min_statements": 2,
        "max_statements": 4,
        "min_complexity": 1,
        "max_complexity": 3,
    },
}

REFUSED: Mapping[str, str] = {  # whole datasets that were not measured; see also scorers.py
    "arc_agi": "its answers are tuples, which JSON does not keep",
    "codeio": "it runs code, and gives different items in different processes",
    "composite": "it has no items of its own",
    "figlet_font": (
        "every item reads 30,177 lines of words first, 0.25 to 0.4 s on a slow machine: "
        "over the budget"
    ),
    "intermediate_integration": (
        "its scorer executes the answer, and only computer algebra could compare integrals"
    ),
    "rearc": "its answers are tuples, which JSON does not keep",
    **dict.fromkeys(
        (
            *("boxnet", "jugs", "quantum_lock", "rubiks_cube", "rush_hour"),
            *("shortest_path", "sokoban", "tower_of_hanoi", "word_ladder"),
        ),
        "its answers are ways through a game, which would have to be played",
    ),
}

_measured: Mapping[str, Any] = json.loads(
    Path(__file__).with_name("catalogue.json").read_text("utf-8")
)
# Default, easy, medium, hard
LEVELS: Mapping[str, Mapping[str, Mapping[str, Any]]] = _measured["tasks"]
# "dataset/config_id" of levels not offered -> why
LEFT_OUT: Mapping[str, str] = _measured["left_out"]


def _configurations(name: str) -> dict[str, Mapping[str, Any]]:
    configurations: dict[str, Mapping[str, Any]] = {}
    if name in STARTER:
        configurations["tiny"] = STARTER[name]
    if name in PAPER:
        configurations["paper"] = PAPER[name]
    return {**configurations, **LEVELS.get(name, {})}


# Data set -> config id -> configuration
CATALOGUE: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    name: _configurations(name) for name in sorted({*STARTER, *PAPER, *LEVELS})
}

TASKS: Mapping[str, tuple[str, ...]] = {name: tuple(levels) for name, levels in CATALOGUE.items()}


def _without_any_level() -> dict[str, str]:
    reasons: dict[str, set[str]] = {}
    for task, reason in LEFT_OUT.items():
        reasons.setdefault(task.partition("/")[0], set()).add(reason)
    return {name: ", ".join(sorted(why)) for name, why in reasons.items() if name not in CATALOGUE}


# Datasets without any level -> why
EXCLUDED: Mapping[str, str] = {**REFUSED, **_without_any_level()}

PRETRAINED_TASKS: tuple[str, ...] = (  # of smollm2-135m with 4 shots: docs/results/real_models.md
    *(
        "chain_sum/tiny",
        "letter_counting/easy",
        "lcm/tiny",
        "count_bits/tiny",
        "prime_factorization/tiny",
    ),
    *("aiw/easy", "products/easy", "calendar_arithmetic/easy", "fraction_simplification/tiny"),
)
# What smollm2-135m answers at 3 % or more with 4 shots, by the same page: the tasks from which a
# node with a small model chooses
SMALL_TASKS: tuple[str, ...] = (
    *("letter_counting/easy", "lcm/tiny", "count_bits/tiny", "prime_factorization/tiny"),
    *("aiw/easy", "products/easy", "calendar_arithmetic/easy", "chain_sum/easy", "chain_sum/tiny"),
    *("fraction_simplification/tiny", "time_intervals/easy", "count_bits/easy", "gcd/tiny"),
    *("basic_arithmetic/easy", "count_primes/easy", "gcd/easy"),
)
# The tasks from which a node with a larger model chooses: those whose answer is short, from every
# subject of the library. How many of them a model of half a billion parameters or more answers was
# not measured here: the first rounds of a node measure it
LARGER_TASKS: tuple[str, ...] = (
    *("chain_sum/easy", "letter_counting/easy", "lcm/easy", "count_bits/easy", "gcd/easy"),
    *("aiw/easy", "products/easy", "calendar_arithmetic/easy", "basic_arithmetic/easy"),
    *("time_intervals/easy", "fraction_simplification/easy", "simple_equations/easy"),
    *("leg_counting/easy", "spell_backward/easy", "number_sequence/easy", "coin_flip/easy"),
    *("decimal_chain_sum/easy", "family_relationships/easy", "prime_factorization/easy"),
    *("count_primes/easy", "base_conversion/easy", "complex_arithmetic/easy", "dice/easy"),
    *("caesar_cipher/easy", "bitwise_arithmetic/easy", "simple_geometry/easy"),
    *("number_filtering/easy", "letter_jumble/easy", "propositional_logic/easy"),
    *("word_sorting/easy", "knights_knaves/easy", "countdown/easy"),
)
STARTER_TASKS: tuple[str, ...] = tuple(f"{name}/tiny" for name in STARTER)
