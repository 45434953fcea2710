"""Random masks on dual steps (Ponomarenko-Timofeev et al., section 6.2). They are NOT a privacy guarantee.

A mask p_i in [0, 1] multiplies the step of point i, fresh in every epoch and independent of the data: Bernoulli(q) drops
points, Beta(a, b) shrinks them; points outside a random `share` keep p = 1.

`consistent` masks the dual step itself (a += p * step), so that w and v_k stay what the dual says and the exact optimum is
still reached, later. `paper` masks dw but not a (line 11 against line 12 of Algorithm 1): w then drifts off the dual.

Why no guarantee: the masked update is still sum_i p_i h_i x_i, an un-noised combination of the participant's own rows. An
observer who holds a candidate row needs no p_i to test whether it belongs to their span, and sums over epochs average the
masks out. The attacks in docs/svm_masks.md find membership in spite of them, and the certificate says "none".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from taskveil.errors import OptionError
from taskveil.methods.options import Group
from taskveil.privacy.randomness import NoiseSource, insecure_seeded_noise, system_noise

MODES = ("consistent", "paper")


@dataclass(frozen=True)
class Mask:
    """Law of p and the share of points it applies to."""

    law: str  # "bernoulli" or "beta"
    first: float  # q, or a
    second: float = 0.0  # b
    share: float = 1.0

    def draw(self, round: int, task: int, size: int, source: NoiseSource) -> np.ndarray:
        """p for one participant in one epoch, (size,)."""
        stream = source.at(round, "mask", task)
        if self.law == "bernoulli":
            p = stream.bernoulli(self.first, size).astype(np.float64)
        else:
            left, right = stream.gamma(self.first, 1.0, size), stream.gamma(self.second, 1.0, size)
            p = left / np.maximum(left + right, 1e-300)
        if self.share < 1.0:
            p = np.where(stream.uniform(size) < self.share, p, 1.0)
        return p


@dataclass(frozen=True)
class Masks(Group):
    """How a run masks: the law (see `parse_mask`), the share of points, what it multiplies, a seed for simulations."""

    law: Any = None
    share: float = 1.0
    mode: str = "consistent"
    seed: int | None = None

    flat: ClassVar[dict[str, str]] = {"law": "mask", "share": "mask_share", "mode": "mask_mode", "seed": "mask_seed"}

    def parsed(self) -> Mask | None:
        """The mask itself; None: messages go unmasked."""
        return parse_mask(self.law, self.share)


UNMASKED = Masks()


def parse_mask(mask: Any, share: float = 1.0) -> Mask | None:
    """None, ("bernoulli", q), ("beta", a, b), or the same as text: "bernoulli:0.5", "beta:2,0.5"."""
    if mask is None or isinstance(mask, Mask):
        return mask
    if isinstance(mask, str):
        law, _, numbers = mask.partition(":")
        mask = (law, *(float(v) for v in numbers.split(",") if v))
    law, *numbers = mask
    if law == "bernoulli" and len(numbers) == 1 and 0.0 < numbers[0] <= 1.0:
        return Mask("bernoulli", float(numbers[0]), share=float(share))
    if law == "beta" and len(numbers) == 2 and min(numbers) > 0.0:
        return Mask("beta", float(numbers[0]), float(numbers[1]), float(share))
    raise OptionError(
        f"mask must be None, ('bernoulli', q) with 0 < q <= 1, or ('beta', a, b) with a, b > 0; got {mask!r}. "
        "A mask that is never positive would never learn."
    )


def mask_source(seed: int | None) -> NoiseSource:
    """Operating-system entropy; a seed is for simulations."""
    return system_noise(exact=False) if seed is None else insecure_seeded_noise(seed)
