"""What tasks compute on their own rows for a gradient loop: curvature, size of the gradient noise, gradient and intercept."""

from __future__ import annotations

import numpy as np

from taskveil.losses import LOSSES
from taskveil.losses.base import Loss
from taskveil.methods.base import PublicInfo
from taskveil.solvers.block_gradient import mean_gradients
from taskveil.solvers.lipschitz import task_lipschitz
from taskveil.solvers.moves import subtract_products
from taskveil.tasks.block import TaskBlock
from taskveil.threads import in_parts


def local_curvature(block: TaskBlock, public: PublicInfo) -> np.ndarray:
    """Upper bounds (m,) on the curvature of each task's mean loss in (w, intercept); never zero."""
    loss = LOSSES.get(public.loss)
    profiled = public.fit_intercept and public.loss == "squared"  # the optimal intercept centres the rows
    bounds = task_lipschitz(block, loss, centred=profiled)
    if public.fit_intercept and not profiled:
        bounds = bounds + loss.smoothness  # a column of ones adds at most one to the largest eigenvalue
    return np.maximum(bounds, 1e-12)


def gradient_variance(block: TaskBlock, loss: Loss, W: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Mean square of a row's gradient per coordinate (m,): what pure noise contributes; X is not copied."""
    slopes = loss.derivative(block.scores(W, b), block.y)
    lengths = np.concatenate(in_parts(lambda rows: np.einsum("nd,nd->n", block.X[rows], block.X[rows]), block.n_rows))[:, None]
    return block.means_by_task(slopes**2 * lengths).mean(axis=1) / block.n_features


def profiled_gradient(
    block: TaskBlock, public: PublicInfo, Z: np.ndarray, b: np.ndarray, means: np.ndarray, eta: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient in w, and the next intercept: unpenalised, exact for squared loss, one step for logistic loss."""
    gradient, slope, _ = mean_gradients(block, Z, b, LOSSES.get(public.loss))
    if not public.fit_intercept:
        return gradient, b
    if public.loss == "squared":
        # Moving b to its optimum shifts every residual by -slope, hence the gradient by -slope * mean(x).
        subtract_products(gradient, slope, means)
        return gradient, b - slope
    return gradient, b - eta * slope
