"""One inner loop, written out in vectors: four rows of a symmetric matrix at once. Imported only by compiled loops: needs Numba.

A compiler turns such a loop into vectors only behind forty comparisons of addresses, since it cannot know that the lines lie
apart, and for less than some twenty columns not at all: at a hundred columns that is most of the time. Said in vectors nothing is
asked, and the order of every sum is fixed here, wherever the arrays lie and whatever the processor.

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
NOTHING = ir.Constant(VECTOR, ir.Undefined)
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

        def everywhere(place: Any) -> Any:
            one = builder.insert_element(NOTHING, builder.load(place), PLACE(0))
            return builder.shuffle_vector(one, NOTHING, _places(LANES * [0]))

        v, w, x = ([everywhere(at(line.data, INDEX(k), row)) for row in rows] for k in range(3))

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
        totals = _over(builder, builder.add(square, INDEX(LANES)), n, columns)
        for row, total in zip(rows, totals, strict=True):
            place = at(line.data, INDEX(3), row)
            builder.store(builder.fadd(builder.load(place), _added(builder, total), FUSED), place)
        return context.get_dummy_value()

    return types.void(A, lines, first), code


reflect_band: Any = intrinsic(_reflect_band)


def _over(builder: Any, start: Any, end: Any, step: Any) -> list[Any]:
    """The BAND vectors that sums have become once `step` was taken for every LANES columns from start to end."""
    zero, before = ir.Constant(VECTOR, [0.0] * LANES), builder.block
    loop, after = builder.append_basic_block("columns"), builder.append_basic_block("sums")
    builder.cbranch(builder.icmp_signed("<", start, end), loop, after)
    builder.position_at_end(loop)
    j, sums = builder.phi(INDEX), [builder.phi(VECTOR) for _ in range(BAND)]
    grown, following = step(j, sums), builder.add(j, INDEX(LANES))
    builder.cbranch(builder.icmp_signed("<", following, end), loop, after)
    builder.position_at_end(after)
    totals = [builder.phi(VECTOR) for _ in range(BAND)]
    for phi, first, later in [(j, start, following), *zip(sums, BAND * [zero], grown, strict=True)]:
        phi.add_incoming(first, before)
        phi.add_incoming(later, loop)
    for total, sum_ in zip(totals, grown, strict=True):
        total.add_incoming(zero, before)
        total.add_incoming(sum_, loop)
    return totals


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
