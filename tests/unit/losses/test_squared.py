import numpy as np

from taskveil.losses import LOSSES


def test_the_squared_loss_has_a_factor_one_half():
    assert LOSSES.get("squared").value(np.array([5.0]), np.array([2.0])) == 4.5
