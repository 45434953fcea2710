"""Inner loops written out in vectors: four rows of a symmetric matrix, LANES strengths of a tridiagonal system at once.

Imported only by compiled loops: needs Numba. A compiler turns such loops into vectors only behind up to forty comparisons of
addresses, since it cannot know that the lines lie apart, and for less than some twenty numbers not at all: that was most of the
time. Said in vectors nothing is asked, and the order of every sum is fixed here, wherever the arrays lie, whatever the processor.

Numba keeps compiled code by the text of the file a loop stands in: a change here needs one there (kernels_tridiagonal.py).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

LANES = 8  # numbers in a vector; a processor with narrower ones takes several
BAND = 4  # rows at once: what they need stays in registers
VECTOR, INDEX, PLACE = ir.VectorType(ir.DoubleType(), LANES), ir.IntType(64), ir.IntType(32)
NOTHING, ZERO = ir.Constant(VECTOR, ir.Undefined), ir.Constant(VECTOR, [0.0] * LANES)
FUSED = ("contract",)  # a product and a sum may be one instruction


def _reflect_band(typing: Any, A: Any, lines: Any, first: Any) -> Any:
    """Rows first to first + BAND of symmetric A (n, n) become A - v w' - w v', and y grows by their part of the product A x.

    `lines` (4, n) are v, w, x and y; n is a multiple of LANES. Squares of LANES on the diagonal stand whole in A; right of them
    a row is its column, too, and counts for both.
    """

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        matrix, line = (context.make_array(signature.args[k])(context, builder, values[k]) for k in (0, 1))
        n, rows = builder.extract_value(matrix.shape, 1), [builder.add(values[2], INDEX(q)) for q in range(BAND)]

        def at(start: Any, row: Any, j: Any) -> Any:
            return builder.gep(start, [builder.add(builder.mul(row, n), j)])

        def vector(place: Any) -> Any:
            return builder.bitcast(place, VECTOR.as_pointer())

        v, w, x = ([_everywhere(builder, at(line.data, INDEX(k), row)) for row in rows] for k in range(3))

        def columns(j: Any, sums: list[Any]) -> list[Any]:
            """LANES columns from j on; what the sums along the rows become."""
            vs, ws, xs, ys = (builder.load(vector(at(line.data, INDEX(k), j)), align=8) for k in range(4))
            for q, row in enumerate(rows):
                place = vector(at(matrix.data, row, j))
                change = builder.fadd(builder.fmul(v[q], ws, FUSED), builder.fmul(w[q], vs, FUSED), FUSED)
                now = builder.fsub(builder.load(place, align=8), change, FUSED)
                builder.store(now, place, align=8)
                ys = builder.fadd(ys, builder.fmul(now, x[q], FUSED), FUSED)
                sums = [builder.fadd(s, builder.fmul(now, xs, FUSED), FUSED) if k == q else s for k, s in enumerate(sums)]
            builder.store(ys, vector(at(line.data, INDEX(3), j)), align=8)
            return sums

        square = builder.and_(values[2], INDEX(-LANES))
        columns(square, [])
        totals = _over(builder, builder.add(square, INDEX(LANES)), n, LANES, BAND * [ZERO], columns)
        for row, total in zip(rows, totals, strict=True):
            place = at(line.data, INDEX(3), row)
            builder.store(builder.fadd(builder.load(place), _added(builder, total), FUSED), place)
        return context.get_dummy_value()

    return types.void(A, lines, first), code


reflect_band: Any = intrinsic(_reflect_band)


def _weigh(typing: Any, weights: Any, x: Any, place: Any, out: Any) -> Any:
    """out[place : place + LANES] = the sum over j of weights[j] x[j, place : place + LANES]."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        lanes = _Lanes(context, builder, signature, values)

        def add(j: Any, total: list[Any]) -> list[Any]:
            weight = _everywhere(builder, builder.gep(lanes.start(0), [j]))
            return [builder.fadd(total[0], builder.fmul(weight, lanes.load(1, j, values[2]), FUSED), FUSED)]

        (total,) = _over(builder, INDEX(0), lanes.rows(1), 1, [ZERO], add)
        builder.store(total, builder.bitcast(builder.gep(lanes.start(3), [values[2]]), VECTOR.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(weights, x, place, out), code


def _solve(typing: Any, inverses: Any, factors: Any, right: Any, x: Any, place: Any) -> Any:
    """x (p, strengths) with L diag(1 / inverses) L' x = right (p,), for LANES strengths from `place` on."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        lanes, place = _Lanes(context, builder, signature, values), values[4]
        last = builder.sub(lanes.rows(3), INDEX(1))

        def down(j: Any, above: list[Any]) -> list[Any]:
            here = _everywhere(builder, builder.gep(lanes.start(2), [j]))
            here = builder.fsub(here, builder.fmul(lanes.load(1, j, place), above[0], FUSED), FUSED)
            lanes.store(here, 3, j, place)
            return [here]

        def up(step: Any, below: list[Any]) -> list[Any]:
            j = builder.sub(last, step)
            here = builder.fmul(lanes.load(3, j, place), lanes.load(0, j, place), FUSED)
            factor = lanes.load(1, builder.add(j, INDEX(1)), place)
            here = builder.fsub(here, builder.fmul(factor, below[0], FUSED), FUSED)
            lanes.store(here, 3, j, place)
            return [here]

        first = _everywhere(builder, lanes.start(2))
        lanes.store(first, 3, INDEX(0), place)
        (end,) = _over(builder, INDEX(1), lanes.rows(3), 1, [first], down)
        end = builder.fmul(end, lanes.load(0, last, place), FUSED)
        lanes.store(end, 3, last, place)
        _over(builder, INDEX(1), lanes.rows(3), 1, [end], up)
        return context.get_dummy_value()

    return types.void(inverses, factors, right, x, place), code


weigh: Any = intrinsic(_weigh)
solve: Any = intrinsic(_solve)


class _Lanes:
    """The arrays among a function's values: where they start, how many rows they have, LANES numbers of a row."""

    def __init__(self, context: Any, builder: Any, signature: Any, values: Any) -> None:
        self.context, self.builder, self.signature, self.values = context, builder, signature, values

    def _array(self, k: int) -> Any:
        return self.context.make_array(self.signature.args[k])(self.context, self.builder, self.values[k])

    def start(self, k: int) -> Any:
        return self._array(k).data

    def rows(self, k: int) -> Any:
        return self.builder.extract_value(self._array(k).shape, 0)

    def _place(self, k: int, row: Any, place: Any) -> Any:
        width = self.builder.extract_value(self._array(k).shape, 1)
        start = self.builder.gep(self.start(k), [self.builder.add(self.builder.mul(row, width), place)])
        return self.builder.bitcast(start, VECTOR.as_pointer())

    def load(self, k: int, row: Any, place: Any) -> Any:
        return self.builder.load(self._place(k, row, place), align=8)

    def store(self, vector: Any, k: int, row: Any, place: Any) -> None:
        self.builder.store(vector, self._place(k, row, place), align=8)


def _over(builder: Any, start: Any, end: Any, by: int, carried: list[Any], step: Any) -> list[Any]:
    """What the `carried` vectors have become once step(j, carried) was taken for every j from start to end."""
    before, loop, after = builder.block, builder.append_basic_block("loop"), builder.append_basic_block("after")
    builder.cbranch(builder.icmp_signed("<", start, end), loop, after)
    builder.position_at_end(loop)
    j, now = builder.phi(INDEX), [builder.phi(VECTOR) for _ in carried]
    grown, following = step(j, now), builder.add(j, INDEX(by))
    builder.cbranch(builder.icmp_signed("<", following, end), loop, after)
    builder.position_at_end(after)
    totals = [builder.phi(VECTOR) for _ in carried]
    for phi, first, later in [(j, start, following), *zip(now, carried, grown, strict=True)]:
        phi.add_incoming(first, before)
        phi.add_incoming(later, loop)
    for total, first, later in zip(totals, carried, grown, strict=True):
        total.add_incoming(first, before)
        total.add_incoming(later, loop)
    return totals


def _everywhere(builder: Any, place: Any) -> Any:
    """The number at a place in all lanes."""
    one = builder.insert_element(NOTHING, builder.load(place), PLACE(0))
    return builder.shuffle_vector(one, NOTHING, _places(LANES * [0]))


def _added(builder: Any, vector: Any) -> Any:
    """The sum over a vector: halves, then quarters, then the last two."""
    width = LANES
    while width > 1:
        width //= 2
        low, high = (builder.shuffle_vector(vector, vector, _places(range(k, k + width))) for k in (0, width))
        vector = builder.fadd(low, high, FUSED)
    return builder.extract_element(vector, PLACE(0))


def _places(numbers: Any) -> Any:
    return ir.Constant(ir.VectorType(PLACE, len(numbers)), list(numbers))
