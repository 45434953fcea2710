import numpy as np
import pytest
from sklearn.metrics import log_loss

from taskveil.losses import LOSSES


def test_the_logistic_loss_is_the_log_loss_of_scikit_learn():
    rng = np.random.default_rng(0)
    s, y = rng.standard_normal(50), rng.choice([-1.0, 1.0], 50)
    ours = LOSSES.get("logistic").value(s, y).mean()
    assert ours == pytest.approx(log_loss(y > 0, 1.0 / (1.0 + np.exp(-s))), rel=1e-12)
