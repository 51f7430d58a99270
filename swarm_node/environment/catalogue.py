"""Which reasoning-gym questions exist in the swarm: dataset -> config id -> parameters of `create_dataset`.

Pure data: both sides of a question know a config by its id, and parameters never travel.
"""

from collections.abc import Mapping
from typing import Any

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
    "base_conversion": {"min_base": 2, "max_base": 5, "min_value": 0, "max_value": 31},
    "number_sequence": {"min_terms": 4, "max_terms": 4, "min_value": -9, "max_value": 9, "max_complexity": 1},
    "prime_factorization": {"min_value": 2, "max_value": 60},
}

CATALOGUE: Mapping[str, Mapping[str, Mapping[str, Any]]] = {name: {"tiny": config} for name, config in STARTER.items()}

STARTER_TASKS: tuple[str, ...] = tuple(f"{name}/tiny" for name in STARTER)
