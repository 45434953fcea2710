"""The table most tests of loading start from."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    n = 60
    return pd.DataFrame(
        {
            "site": rng.choice(["north", "south", "west"], n),
            "age": rng.integers(20, 90, n),
            "dose": rng.random(n).round(3),
            "days": rng.gamma(3, 2, n).round(3),
        }
    )
