"""The one sampler: every noise draw, cohort bit and mask of the package comes from here.

`system_noise()`           operating-system entropy, expanded by a cryptographic key stream (ChaCha20) where much is
                           needed. Gaussian and Laplace noise is drawn exactly, as discrete noise on a public grid: by
                           grid_sampler.py, or, where OpenDP is installed (Canonne, Kamath, Steinke 2020), by that
                           up to OPENDP_LIMIT coordinates. Laws without an exact sampler are float64 inversions of words of
                           that key stream. `describe()` says which samplers were used.
`insecure_seeded_noise()`  reproducible: NumPy Philox keyed by (seed, round, release, task), never by call
                           order. For simulation and tests; it voids the certificate.

The grid. For scale s the grid is g = 2^(floor(log2 s) - GRID_BITS). A mechanism first rounds its input to
the grid (`snap`), then adds noise that is a multiple of g. Both are exact in float64, so the floating-point
sum, even where it rounds, is a function of the exact sum: post-processing. Rounding moves each coordinate
by at most g/2, so two neighbouring inputs are at most sqrt(n) g further apart in l2 and n g in l1;
mechanisms charge for that. This is what OpenDP's own `make_gaussian(..., k).map` charges (a test compares
the two numbers).
"""

from __future__ import annotations

import hashlib
import math
import secrets
from abc import ABC, abstractmethod
from functools import cached_property, lru_cache
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import OptionError
from taskveil.privacy.grid_sampler import grid_steps
from taskveil.privacy.integer_sampler import KeyStream
from taskveil.privacy.keyed_laws import KeyedLaws

FloatArray = NDArray[np.float64]
Shape = int | tuple[int, ...]

GRID_BITS = 40
OPENDP_LIMIT = 10_000  # coordinates; OpenDP draws 12-65 thousand exact samples a second


def grid(scale: float) -> float:
    """The public grid for noise of this scale: a power of two, 2^-40 to 2^-41 of the scale."""
    return math.ldexp(1.0, math.frexp(scale)[1] - 1 - GRID_BITS)


def snap(value: FloatArray, scale: float) -> FloatArray:
    """`value` rounded to the nearest point of the grid for `scale` (exact in float64)."""
    g = grid(scale)
    with np.errstate(over="ignore"):
        steps = np.asarray(np.asarray(value, dtype=np.float64) / g)
    largest = max(np.max(steps, initial=0.0), -np.min(steps, initial=0.0))
    if largest < 2.0**53:
        return np.multiply(np.rint(steps, out=steps), g, out=steps)
    # Beyond 2^53 steps a float64 is a multiple of the grid already.
    return np.where(np.abs(steps) < 2.0**53, np.rint(steps) * g, value)


class Laws(Protocol):
    """The float64 laws a stream is built on: those of NumPy's generator, by the same names."""

    def standard_normal(self, size: Any = None) -> Any: ...
    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any: ...
    def chisquare(self, df: Any, size: Any = None) -> Any: ...
    def integers(self, low: Any, high: Any = None, size: Any = None) -> Any: ...


class Stream(ABC):
    """Random numbers for one release (and one task, where a task draws its own)."""

    _generator: Laws

    @abstractmethod
    def normal(self, scale: float, shape: Shape) -> FloatArray:
        """Independent N(0, scale^2)."""

    @abstractmethod
    def laplace(self, scale: float, shape: Shape) -> FloatArray:
        """Independent Laplace with density exp(-|x|/scale) / (2 scale)."""

    @abstractmethod
    def uniform(self, size: Shape) -> FloatArray:
        """Independent, uniform on [0, 1)."""

    @abstractmethod
    def key(self) -> bytes:
        """32 bytes that key a stream of integer noise (privacy/integer_sampler.py)."""

    def gamma(self, concentration: float, scale: float, size: Shape = ()) -> FloatArray:
        """Independent Gamma(concentration, scale)."""
        return np.asarray(self._inexact("gamma").gamma(concentration, scale, size))

    def chi_square(self, degrees: float | FloatArray, size: Shape = ()) -> FloatArray:
        """Independent chi-square."""
        return np.asarray(self._inexact("chi-square").chisquare(degrees, size or None))

    def direction(self, dimension: int) -> FloatArray:
        """Uniform on the unit sphere."""
        v = self._inexact("direction").standard_normal(dimension)
        return np.asarray(v / np.linalg.norm(v))

    def wishart(self, dimension: int, degrees: int, scale: float, size: tuple[int, ...] = ()) -> FloatArray:
        """W_d(degrees, scale I) by Bartlett's decomposition: O(d^2) normals, d chi-squares (degrees >= d).

        `size` asks for independent draws at once (audits); () is one matrix.
        """
        rng, d, diagonal = self._inexact("wishart"), dimension, np.arange(dimension)
        factor = np.tril(rng.standard_normal((*size, d, d)), -1)
        factor[..., diagonal, diagonal] = np.sqrt(rng.chisquare(degrees - diagonal, (*size, d)))
        return np.asarray(scale * (factor @ factor.swapaxes(-1, -2)))

    def bernoulli(self, rate: float, size: Shape) -> NDArray[np.bool_]:
        """Independent coins, True with probability `rate`."""
        return np.asarray(self.uniform(size) < rate)

    def bits(self, size: Shape) -> NDArray[np.bool_]:
        """Independent fair coins."""
        return self.bernoulli(0.5, size)

    def integers(self, low: int, high: int, size: Shape = ()) -> NDArray[np.int64]:
        """Independent, uniform on low, ..., high - 1."""
        return np.asarray(self._inexact("integers").integers(low, high, size))

    def _inexact(self, law: str) -> Laws:
        return self._generator


class NoiseSource(ABC):
    """Where streams come from; passed to whoever releases."""

    voids_certificate: bool

    @abstractmethod
    def at(self, round: int, name: str, task: str | int | None = None) -> Stream:
        """The stream for one release of one round (and one task)."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """For the certificate's `randomness`."""


class _Again(NoiseSource):
    """The same source for a release that is made once more, with streams of its own."""

    def __init__(self, source: NoiseSource, attempt: int) -> None:
        self._source, self._attempt = source, attempt
        self.voids_certificate = source.voids_certificate

    def at(self, round: int, name: str, task: str | int | None = None) -> Stream:
        return self._source.at(round, f"{name}@attempt-{self._attempt}", task)

    def describe(self) -> dict[str, Any]:
        return self._source.describe()


def again(source: NoiseSource, attempt: int) -> NoiseSource:
    """The source for attempt 0, 1, 2 ...: seeded noise must not repeat when a killed run is resumed."""
    return source if attempt == 0 else _Again(source, attempt)


class _SeededStream(Stream):
    _generator: np.random.Generator

    def __init__(self, key: bytes) -> None:
        self._generator = np.random.Generator(np.random.Philox(key=int.from_bytes(key[:16], "little")))

    def normal(self, scale: float, shape: Shape) -> FloatArray:
        return np.asarray(snap(scale * self._generator.standard_normal(shape), scale))

    def laplace(self, scale: float, shape: Shape) -> FloatArray:
        return np.asarray(snap(self._generator.laplace(0.0, scale, shape), scale))

    def uniform(self, size: Shape) -> FloatArray:
        return np.asarray(self._generator.random(size))

    def key(self) -> bytes:
        return self._generator.bytes(32)


class _SeededSource(NoiseSource):
    voids_certificate = True

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or int(seed) != seed or seed < 0:
            raise OptionError(f"a noise seed is a whole number >= 0; got {seed!r}")
        self._seed = int(seed)

    def at(self, round: int, name: str, task: str | int | None = None) -> Stream:
        label = repr((self._seed, int(round), str(name), None if task is None else str(task)))
        return _SeededStream(hashlib.sha256(label.encode()).digest())

    def describe(self) -> dict[str, Any]:
        return {
            "source": "seeded", "seeded": True, "exact": False, "samplers": ["float64 (Philox, seeded)"],
            "note": "whoever knows the seed can subtract the noise; for simulation only",
        }  # fmt: skip


class _SystemStream(Stream):
    def __init__(self, source: _SystemSource) -> None:
        self._source = source

    @cached_property
    def _words(self) -> KeyStream:
        return KeyStream(secrets.token_bytes(32))

    def normal(self, scale: float, shape: Shape) -> FloatArray:
        return self._noise("gaussian", scale, shape)

    def laplace(self, scale: float, shape: Shape) -> FloatArray:
        return self._noise("laplace", scale, shape)

    def _noise(self, law: str, scale: float, shape: Shape) -> FloatArray:
        size = _count(shape)
        sampler = self._source.sampler(law, size)
        if sampler == "opendp":
            return _opendp_noise(law, scale, size).reshape(shape)
        if sampler == "grid":
            g = grid(scale)
            return np.asarray(grid_steps(law, scale / g, size, self._words) * g).reshape(shape)
        draws = self._inexact(law)
        plain = draws.standard_normal(size) if law == "gaussian" else draws.laplace(size)
        return snap(scale * plain, scale).reshape(shape)

    def uniform(self, size: Shape) -> FloatArray:
        return KeyedLaws(self._words).random(size)

    def key(self) -> bytes:
        self._source.note("integer tables over ChaCha20, within 2^-99 of their law")
        return secrets.token_bytes(32)

    def integers(self, low: int, high: int, size: Shape = ()) -> NDArray[np.int64]:
        return KeyedLaws(self._words).integers(low, high, size)  # exact: nothing to declare

    def _inexact(self, law: str) -> KeyedLaws:
        self._source.note(f"float64 {law} (ChaCha20, key from the operating system)")
        return KeyedLaws(self._words)


class _SystemSource(NoiseSource):
    voids_certificate = False

    def __init__(self, exact: bool) -> None:
        self._exact = exact
        self._samplers: set[str] = set()

    def at(self, round: int, name: str, task: str | int | None = None) -> Stream:
        return _SystemStream(self)

    def sampler(self, law: str, size: int) -> str:
        """Which sampler draws `size` numbers of this law; remembers an exact one for `describe`."""
        if not self._exact:
            return "float64"
        theirs = size <= OPENDP_LIMIT and opendp_is_installed()
        by = "OpenDP" if theirs else "ours over ChaCha20, within 2^-97 of its law"
        self.note(f"exact discrete {law} ({by}, grid 2^-{GRID_BITS} of the scale)")
        return "opendp" if theirs else "grid"

    def note(self, sampler: str) -> None:
        """Remember that this sampler was used."""
        self._samplers.add(sampler)

    def describe(self) -> dict[str, Any]:
        inexact = any(s.startswith("float64") for s in self._samplers)
        return {
            "source": "operating system", "seeded": False, "exact": self._exact and not inexact,
            "samplers": sorted(self._samplers),
        }  # fmt: skip


def system_noise(exact: bool = True) -> NoiseSource:
    """Noise from operating-system entropy, exact for Gaussian and Laplace draws of any size.

    `exact=False` is for simulations of many small draws: float64, cryptographic all the same.
    """
    return _SystemSource(exact)


def insecure_seeded_noise(seed: int) -> NoiseSource:
    """Reproducible noise for simulations and tests. Whoever knows the seed can remove it."""
    return _SeededSource(seed)


def _count(shape: Shape) -> int:
    return int(shape) if isinstance(shape, int) else math.prod(shape)


@lru_cache(maxsize=1)
def opendp_is_installed() -> bool:
    """Whether the extra `opendp` is there; every certificate names the sampler that drew."""
    return find_spec("opendp") is not None


def _opendp_noise(law: str, scale: float, size: int) -> FloatArray:
    """Discrete Gaussian or Laplace noise on the grid, drawn by OpenDP around zero."""
    if size == 0:
        return np.zeros(0)
    return np.asarray(exact_measurement(law, scale, size)([0.0] * size), dtype=np.float64)


def exact_measurement(law: str, scale: float, size: int) -> Any:
    """The OpenDP measurement behind an exact draw; its `.map` gives rho (gaussian) or epsilon (laplace)."""
    from opendp.domains import atom_domain, vector_domain  # not opendp.prelude: it imports polars and scikit-learn
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    domain = vector_domain(atom_domain(T="f64", nan=False), size=size)
    k = math.frexp(grid(scale))[1] - 1
    if law == "gaussian":
        return make_gaussian(domain, l2_distance(T="f64"), scale=scale, k=k)
    return make_laplace(domain, l1_distance(T="f64"), scale=scale, k=k)
