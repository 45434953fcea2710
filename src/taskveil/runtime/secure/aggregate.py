"""Plugs the secure sum into `privacy.aggregation`: in one process, all tasks run the real protocol."""

from __future__ import annotations

import numpy as np

from taskveil.errors import SecureSumRefused
from taskveil.privacy.aggregation import use_integer_sum
from taskveil.privacy.mechanisms.shared import SharedNoise
from taskveil.privacy.secure_options import SECURITY_BITS
from taskveil.runtime.secure.run import secure_total
from taskveil.runtime.secure.settings import SecureSettings


def settings_of(mechanism: SharedNoise, length: int) -> SecureSettings:
    """The secure sum that goes with a mechanism: its tolerances, and a ring that holds the sum."""
    return SecureSettings.choose(
        mechanism.n_tasks, length, mechanism.bits, mechanism.colluders, mechanism.min_cohort, SECURITY_BITS
    )


def sum_in_process(messages: np.ndarray, mechanism: SharedNoise) -> np.ndarray:
    """The total of all tasks' messages, by the protocol."""
    if len(messages) != mechanism.n_tasks:
        raise SecureSumRefused(f"the plan is for {mechanism.n_tasks} tasks, {len(messages)} are here; nothing is released")
    total, _ = secure_total(messages, settings_of(mechanism, messages.shape[1]))
    return total


def install() -> None:
    """Make aggregation 'secure' available to `privacy.release`."""
    use_integer_sum(sum_in_process)
