"""The neural engine: many small models trained at once with JAX (extra `nn`).

    models.py       a model is a pair of pure functions, init(key) and apply(params, rows)
    convolution.py  convolutions as patches times a matrix, which batch over clients
    pooling.py      which pixel of a window counts
    features.py     public feature maps: no parameters, nothing learned from data
    batches.py      which rows a client uses in each local step (NumPy, no JAX)
    rounds.py       one jitted round: local steps, clipping by privacy.bounds, ends at the clipped sum
    store.py        client models: on the host, or on the device where they fit
    personalise.py  fine-tuning after the last release and the client's own choice; costs no privacy

This folder is the only one that imports JAX, and nothing imports this folder until a neural method runs.
"""

from __future__ import annotations

from typing import Any

from taskveil.errors import EnvironmentMissing

__all__ = ["require_jax"]


def require_jax() -> Any:
    """The jax module, or an error that names the extra to install."""
    try:
        import jax
    except ImportError as error:
        raise EnvironmentMissing(
            "neural models need JAX, which is not installed: pip install 'taskveil[nn]'. "
            "Linear models (model='linear') work without it."
        ) from error
    return jax
