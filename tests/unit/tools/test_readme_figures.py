"""The picture of the README: no number lies on a line."""

import re

from tools.readme_figures import picture


def test_no_number_is_crossed_by_the_line_of_a_level():
    """The first point's 0.74 was struck through by the line of learning alone at 0.75."""
    settings = (("local", None, 0.754), ("pooled", None, 0.562), ("subspace", 0.3, 0.737), ("subspace", 1.0, 0.612))
    drawn = picture({"results": [{"method": m, "epsilon": e, "mean": v, "std": 0.1} for m, e, v in settings]})
    levels = [float(y) for y in re.findall(r'y1="([\d.]+)" y2="\1" stroke="#5b6776"', drawn)]
    numbers = [float(y) for y in re.findall(r'y="([\d.]+)"(?: text-anchor="end")? fill="#1f5fa8"', drawn)]
    assert len(levels) == 2 and len(numbers) == 2
    assert all(not baseline - 11 < level < baseline + 2 for baseline in numbers for level in levels)
