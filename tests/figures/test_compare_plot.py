"""Two runs as a picture: the numbers of the comparison, and a line where the tokens first differ."""

from __future__ import annotations

from miniinfer.figures.compare_plot import comparison_figure
from miniinfer.figures.palette import LIGHT
from miniinfer.trace.compare import RunComparison, compare_runs
from tests.trace.files.recorded import make_run


def test_the_picture_has_the_numbers_of_the_comparison() -> None:
    found = compare_runs(make_run(), make_run(texts="abcdeXghijklmnop"))
    figure = comparison_figure(found, LIGHT, 200)
    apart, a, b = figure.data
    assert list(apart.x) == [pair.index + 1 for pair in found.pairs]
    assert list(apart.y) == [pair.used_difference for pair in found.pairs]
    assert (list(a.y), list(b.y)) == ([p.a_prob for p in found.pairs], [p.b_prob for p in found.pairs])
    assert not figure.layout.shapes, "the same ids: no first difference"
    longer = compare_runs(make_run(decoded=5), make_run())
    assert comparison_figure(longer, LIGHT, 200).data[2].y[-1] is None


def test_the_first_difference_is_marked() -> None:
    found = compare_runs(make_run(), make_run(prompt=4, decoded=4))
    assert found.first_difference == 0
    assert comparison_figure(found, LIGHT, 200).layout.shapes[0].x0 == 1
    assert not comparison_figure(RunComparison(True, ()), LIGHT, 200).layout.shapes
