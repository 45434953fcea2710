"""Where client models and rows live: host memory grows with the number of clients, the device holds one cohort.

A client that has not taken part yet has no model of its own; its row of the array is untouched memory, so that ten
thousand clients of which a few hundred have been asked cost what a few hundred do. Where all client models fit on the
accelerator (a quarter of its memory), they stay there and only indices travel.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

COPY_BELOW = 2**28  # bytes; larger client states are updated in place instead of copied every round


def device_bytes() -> int:
    """Memory of the accelerator in bytes; 0 on a CPU."""
    device = jax.devices()[0]
    if device.platform == "cpu":
        return 0
    stats = device.memory_stats() or {}
    return int(stats.get("bytes_limit", 0))


def fits_on_device(n_bytes: int) -> bool:
    return n_bytes <= device_bytes() // 4


def empty_models(n_clients: int, n_parameters: int) -> Any:
    """(clients, parameters) float32 zeros, on the device where they fit, else in untouched host memory."""
    shape = (n_clients, n_parameters)
    if fits_on_device(4 * n_clients * n_parameters):
        return jnp.zeros(shape, jnp.float32)
    return np.zeros(shape, np.float32)


def take(models: Any, clients: np.ndarray, size: int) -> Any:
    """The models of a cohort, padded to `size` rows."""
    padded = np.zeros(size, np.int32)
    padded[: clients.size] = clients
    if isinstance(models, np.ndarray):
        return models[padded]
    return _gather(models, padded)


def put(models: Any, clients: np.ndarray, values: Any) -> Any:
    """The client models with the cohort's rows replaced; large arrays are changed in place."""
    if not isinstance(models, np.ndarray):
        target = np.full(values.shape[0], models.shape[0], np.int32)  # out of range: dropped
        target[: clients.size] = clients
        return _scatter(models, target, values)
    result = models.copy() if models.nbytes < COPY_BELOW else models
    result[clients] = np.asarray(values)[: clients.size]
    return result


def rows_on_device(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any] | None:
    """All rows as device arrays where they fit, else None: then each cohort's rows are sent."""
    if jax.default_backend() == "cpu" or fits_on_device(X.nbytes + y.nbytes):
        return jnp.asarray(X), jnp.asarray(y)
    return None


def cohort_rows(X: np.ndarray, y: np.ndarray, index: np.ndarray) -> tuple[Any, Any, np.ndarray]:
    """Only the rows a cohort uses, and their numbers among themselves."""
    flat = index.reshape(-1)
    return X[flat], y[flat], np.arange(flat.size, dtype=np.int32).reshape(index.shape)


@jax.jit
def _gather(models: Any, clients: Any) -> Any:
    return models[clients]


@partial(jax.jit, donate_argnums=0)
def _scatter(models: Any, clients: Any, values: Any) -> Any:
    return models.at[clients].set(values, mode="drop")
