"""Plugs the secure sum into `privacy.aggregation`: in one process, all sites run the real protocol."""

from __future__ import annotations

import numpy as np

from taskveil.privacy.aggregation import use_integer_sum
from taskveil.privacy.mechanisms.shared import SharedNoise
from taskveil.runtime.secure.run import secure_total
from taskveil.runtime.secure.settings import SecureSettings


def settings_of(mechanism: SharedNoise, length: int) -> SecureSettings:
    """The secure sum that goes with a mechanism: its tolerances, and a ring that holds the sum."""
    return SecureSettings.choose(mechanism.n_sites, length, mechanism.bits, mechanism.colluders, mechanism.min_cohort)


def sum_in_process(messages: np.ndarray, mechanism: SharedNoise) -> np.ndarray:
    """The total of all sites' messages, by the protocol."""
    total, _ = secure_total(messages, settings_of(mechanism, messages.shape[1]))
    return total


def install() -> None:
    """Make aggregation 'secure' available to `privacy.release`."""
    use_integer_sum(sum_in_process)
