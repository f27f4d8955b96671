"""Noise: is a difference larger than what the runs' own steps vary by?

Welch's test at 95 %: |Δ| is compared with t·√(s_a²/n_a + s_b²/n_b), s the sample standard deviation over a run's steps
and t Student's quantile for the Welch–Satterthwaite degrees of freedom. Traces hold two to ten steps, where the
usual factor 2 would call one chance difference in six real.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

STUDENT_95 = np.array(
    [4.30, 4.30, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13,
     2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04]
)  # fmt: skip
"""By degrees of freedom, two-sided. One counts as two: its 12.7 would hide differences of ten times the spread."""
ROUNDING_US = 0.001
"""Times are recorded in ns: smaller differences are rounding."""


def noise_us(a_var: npt.ArrayLike, b_var: npt.ArrayLike, a_runs: int, b_runs: int) -> Floats:
    """The size up to which a difference of means is noise; NaN where fewer than two steps leave it unknown."""
    a, b = (np.asarray(var, np.float64) / max(1, runs) for var, runs in ((a_var, a_runs), (b_var, b_runs)))
    if min(a_runs, b_runs) < 2:
        return np.full(a.shape, np.nan)
    total = a + b
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = total**2 / (a**2 / (a_runs - 1) + b**2 / (b_runs - 1))
    freedom = np.clip(np.nan_to_num(freedom, nan=float(a_runs + b_runs - 2)), 0, len(STUDENT_95) - 1)
    noise: Floats = STUDENT_95[freedom.astype(np.int64)] * np.sqrt(total) + ROUNDING_US
    return noise


def sample_variance(values: Floats) -> float:
    """Of a few numbers; 0 where there are fewer than two."""
    return float(np.var(values, ddof=1)) if len(values) > 1 else 0.0
