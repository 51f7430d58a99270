"""Mean and interval of a few repetitions. Small samples, so Student's t and not the normal distribution."""

import math
import statistics
from collections.abc import Sequence

T_975 = (
    *(12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139),
    *(2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024, 2.085963),
    *(2.079614, 2.073873, 2.068658, 2.063899, 2.059539, 2.055529, 2.051831, 2.048407, 2.045230, 2.042272),
)  # 97.5 % quantile of Student's t for 1, 2, ... degrees of freedom


def t_975(degrees: int) -> float:
    """Beyond the table the first terms of the expansion around the normal quantile: right to 5 digits there."""
    if degrees <= len(T_975):
        return T_975[degrees - 1]
    z = statistics.NormalDist().inv_cdf(0.975)
    terms = (z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return sum(term / math.pow(degrees, power) for power, term in enumerate(terms))


def ci95(values: Sequence[float]) -> float | None:
    """Half-width of the 95 % interval of the mean: mean ± this. None for fewer than two values."""
    if len(values) < 2:
        return None
    return t_975(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
