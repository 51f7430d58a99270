"""Statistics of runs that share seeds: paired differences, with intervals and exact tests.

The arms of a seed share questions, identities and initial weights, so they are compared seed by
seed. Candidates that are chosen on some seeds are measured again on others, and every p of a family
is corrected by Holm's rule.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from statistics import fmean

import numpy as np
from scipy import stats

LEVEL = 0.95  # of intervals
RESAMPLES = 9999

Pair = tuple[float, float]  # ends of an interval


@dataclass(frozen=True, slots=True)
class Comparison:
    """One arm against another over the same seeds."""

    name: str
    seeds: int
    mean: float
    base: float  # mean of the arm that it is compared with
    difference: float  # mean - base
    difference_interval: Pair | None  # 95 %, bootstrap over seeds; None for fewer than three seeds
    ratio: float | None  # mean / base; None where base is 0
    ratio_interval: Pair | None  # 95 %, bootstrap over seeds, both arms together
    p: float  # exact two-sided permutation test of the differences
    p_holm: float = 1.0  # p corrected for the family; the same as p without a family


COMPARED = ("against the first", "seeds", "first", "mean", "ratio", "95 %", "p (Holm)")


def compared_line(each: Comparison) -> list[str]:
    """A row of a table with the headings `COMPARED`."""
    ends = (
        "-"
        if each.ratio_interval is None
        else f"{each.ratio_interval[0]:.2f}-{each.ratio_interval[1]:.2f}"
    )
    ratio = "-" if each.ratio is None else f"{each.ratio:.2f}x"
    p = f"{each.p_holm:.4f}" if each.p_holm >= 0.0001 else f"{each.p_holm:.0e}"
    return [each.name, f"{each.seeds}", f"{each.base:.3f}", f"{each.mean:.3f}", ratio, ends, p]


def interval(values: Sequence[float]) -> Pair | None:
    """95 % percentile bootstrap interval of the mean. None for fewer than three values, which show
    no spread.
    """
    if len(values) < 3:
        return None
    return _interval((values,), lambda sample, axis: np.mean(sample, axis=axis))


def compare(name: str, values: Sequence[float], base: Sequence[float]) -> Comparison:
    """`values` against `base`, seed by seed. ValueError if their numbers differ, or there are
    none.
    """
    if len(values) != len(base) or not values:
        raise ValueError(f"{name}: {len(values)} values against {len(base)}: pairs are needed")
    enough = len(values) >= 3
    ratio = fmean(values) / fmean(base) if fmean(base) else None
    return Comparison(
        name=name,
        seeds=len(values),
        mean=fmean(values),
        base=fmean(base),
        difference=fmean(values) - fmean(base),
        difference_interval=interval(
            [one - other for one, other in zip(values, base, strict=True)]
        ),
        ratio=ratio,
        ratio_interval=_interval((values, base), _ratio) if enough and ratio is not None else None,
        p=exact_p(values, base),
        p_holm=exact_p(values, base),
    )


def exact_p(values: Sequence[float], base: Sequence[float]) -> float:
    """Two-sided p of the paired permutation test over all 2^n exchanges: how often chance alone
    gives a mean difference as large. The smallest that n seeds can show is 2 / 2^n.
    """
    differences = np.subtract(values, base)
    count = len(differences)
    if count > 20:  # over a million exchanges: a sample of them
        found = stats.permutation_test(
            (values, base),
            _mean_difference,
            permutation_type="samples",
            n_resamples=RESAMPLES,
            rng=0,
            vectorized=True,
        )
        return float(found.pvalue)
    signs = 1 - 2 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
    sums = np.abs(signs @ differences)
    return float(np.mean(sums >= sums[0] * (1 - 1e-12)))


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's (1979) step-down correction: n - k + 1 times the k-th smallest of n, never below that
    of a smaller one.
    """
    corrected, least = [0.0] * len(ps), 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=lambda index: ps[index])):
        least = max(least, min(1.0, (len(ps) - rank) * ps[index]))
        corrected[index] = least
    return corrected


def family(candidates: Mapping[str, Sequence[float]], base: Sequence[float]) -> list[Comparison]:
    """Every candidate against `base`, with p corrected for their number; the largest difference
    first.
    """
    found = [compare(name, values, base) for name, values in candidates.items()]
    corrected = holm([each.p for each in found])
    rows = [replace(each, p_holm=p) for each, p in zip(found, corrected, strict=True)]
    return sorted(rows, key=lambda each: -each.difference)


def _ratio(values: "np.ndarray", base: "np.ndarray", axis: int) -> "np.ndarray":
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.mean(values, axis=axis) / np.mean(base, axis=axis))


def _mean_difference(values: "np.ndarray", base: "np.ndarray", axis: int) -> "np.ndarray":
    return np.asarray(np.mean(values - base, axis=axis))


def _interval(
    samples: tuple[Sequence[float], ...], statistic: Callable[..., object]
) -> Pair | None:
    # Nothing varies, so there is nothing to resample
    if all(len(set(values)) == 1 for values in samples):
        value = float(np.asarray(statistic(*(np.array(values) for values in samples), axis=-1)))
        return (value, value)
    found = stats.bootstrap(
        tuple(np.array(values) for values in samples),
        statistic,
        confidence_level=LEVEL,
        n_resamples=RESAMPLES,
        paired=len(samples) > 1,
        vectorized=True,
        method="percentile",
        rng=0,
    ).confidence_interval
    low, high = float(found.low), float(found.high)
    return (low, high) if isfinite(low) and isfinite(high) else (min(low, inf), inf)
