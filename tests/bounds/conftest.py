from collections.abc import Callable

import pytest
from hypothesis import settings
from scipy.stats import binom

# A deadline measures the machine, which others share, not the code.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture
def within_rate() -> Callable[[int, int, float], bool]:
    """Whether so many failures in so many runs are compatible with a failure rate of at most `rate`."""
    return lambda failures, runs, rate: bool(failures <= binom.ppf(1 - 1e-4, runs, rate))
