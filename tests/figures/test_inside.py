"""What is drawn of a tensor is the tensor: pooling, folding, scales, histograms, tables."""

from __future__ import annotations

import math

import numpy as np
import plotly.graph_objects as go
import pytest

from miniinfer.engine.program import build_program
from miniinfer.figures.inside.lens_plot import lens_figure
from miniinfer.figures.inside.map import program_map
from miniinfer.figures.inside.picture import histogram, picture_of, pooled, scale_of
from miniinfer.figures.inside.plots import (
    difference_figure,
    heat_figure,
    histogram_figure,
    lines_figure,
    stream_figure,
)
from miniinfer.figures.inside.tables import (
    corner_table,
    facts_words,
    fields_table,
    histogram_table,
    identities_by_layer,
    identities_table,
    lens_table,
    matrix_table,
    norms_table,
    stream_table,
    two_ways_matrix,
    two_ways_table,
    values_table,
    watch_table,
)
from miniinfer.figures.palette import palette
from miniinfer.trace.inside.identities import check_identities
from miniinfer.trace.inside.logit_lens import logit_lens
from miniinfer.trace.inside.records import FieldLook, StageLook, TensorFacts, TensorView
from miniinfer.trace.inside.stage_rows import read_stage_rows
from miniinfer.trace.inside.two_ways import compare_both_ways
from miniinfer.trace.parts import finished
from miniinfer.trace.replay import rows_of
from tests.engine.tiny import TINY
from tests.trace.live import live_run

LIGHT, DARK = palette(False), palette(True)
NAN, INF = math.nan, math.inf


def view(values: object, *, name: str = "x", hidden: bool = False, start: int = 0) -> TensorView:
    return TensorView(name, "T E", np.array(values, np.float32), "position", start, "E", "", hidden)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(1, 1), (1, 96), (5, 128), (64, 7), (64, 128)])
def test_what_is_small_is_drawn_number_for_number(shape: tuple[int, int]) -> None:
    values = random(*shape)
    picture = picture_of(view(values, start=10))
    assert np.array_equal(picture.cells, values)
    assert (picture.row_size, picture.column_size, picture.folded) == (1, 1, False)
    assert picture.rows == tuple(range(10, 10 + shape[0]))
    assert picture.columns == tuple(range(shape[1]))


@pytest.mark.parametrize("size", [97, 576, 1536, 8192])
def test_one_long_row_is_folded_into_lines(size: int) -> None:
    values = random(1, size)
    picture = picture_of(view(values))
    assert picture.folded
    assert picture.column_size == 1
    assert picture.cells.shape[0] <= 64
    assert np.array_equal(picture.cells.ravel()[:size], values[0])
    assert np.isnan(picture.cells.ravel()[size:]).all()
    assert picture.rows == tuple(i * picture.cells.shape[1] for i in range(picture.cells.shape[0]))


def test_a_whole_vocabulary_is_folded_and_pooled() -> None:
    values = random(1, 49_152)
    picture = picture_of(view(values))
    assert (picture.cells.shape, picture.column_size) == ((64, 128), 6)
    flat = values[0].reshape(-1, 6)
    largest = np.take_along_axis(flat, np.abs(flat).argmax(1)[:, None], 1)[:, 0]
    assert np.array_equal(picture.cells.ravel(), largest)


def test_a_cell_shows_the_value_of_largest_size_with_its_sign() -> None:
    values = random(130, 300)
    cells = pooled(values, 3, 4, False)
    assert cells.shape == (44, 75)
    for i, j in ((0, 0), (20, 31), (43, 74)):
        part = values[3 * i : 3 * i + 3, 4 * j : 4 * j + 4].ravel()
        assert cells[i, j] == part[np.abs(part).argmax()]


def test_what_is_not_finite_is_blank_and_what_is_hidden_loses() -> None:
    values = np.array([[-INF, 2.0, 1.0, NAN], [-INF, -INF, -INF, 5.0]], np.float32)
    assert pooled(values, 1, 2, True).tolist()[0][0] == 2.0
    assert np.isnan(pooled(values, 1, 2, True)).tolist() == [[False, True], [True, False]]
    assert np.isnan(pooled(values, 1, 2, False)).tolist() == [[True, True], [True, True]]


def test_the_scale_says_what_it_leaves_out() -> None:
    cells = np.concatenate([np.linspace(-1, 1, 998), [100.0, NAN]]).astype(np.float32)[None]
    scale = scale_of(cells, clip=True)
    assert scale.signed
    assert scale.low == -scale.high
    assert 0.9 < scale.high < 1.5
    assert scale.beyond == int((np.abs(cells) > scale.high).sum())
    assert "1 grey" in scale.words
    assert "up to 100 in size" in scale.words
    assert scale_of(cells, clip=False).high == 100
    assert scale_of(cells, clip=False).beyond == 0


@pytest.mark.parametrize(
    ("cells", "low", "high"), [([[0, 1, 2]], 0, 2), ([[0, 0]], 0, 1), ([[NAN]], 0, 1), ([[-3, 1]], -3, 3)]
)
def test_scales_of_small_things(cells: list[list[float]], low: float, high: float) -> None:
    scale = scale_of(np.array(cells, np.float32), clip=True)
    assert (scale.low, scale.high) == (low, high)
    assert "linear from" in scale.words


def test_a_histogram_counts_every_finite_value() -> None:
    values = np.append(random(50, 40).ravel(), [NAN, INF, -INF]).astype(np.float32)
    counts, edges = histogram(values)
    assert counts.sum() == 2000
    assert (edges[0], edges[-1]) == (values[:2000].min(), values[:2000].max())
    assert histogram(np.array([NAN], np.float32))[0].size == 0
    table = histogram_table(view([values]))
    assert table["values"].sum() == 2000
    assert table["from"].tolist()[1:] == table["to"].tolist()[:-1]


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_heat_maps_carry_their_cells_and_their_scale(colours: object) -> None:
    shown = view(random(5, 40))
    picture = picture_of(shown)
    scale = scale_of(picture.cells, clip=False)
    figure = go.Figure(heat_figure(shown, picture, scale, colours, 300))  # type: ignore[arg-type]
    trace = figure.data[0]
    assert np.array_equal(trace.z, shown.values)
    assert (trace.zmin, trace.zmax) == (scale.low, scale.high)
    assert trace.colorbar.tickfont.size == 11
    bars = go.Figure(histogram_figure(shown, colours, 100)).data[0]  # type: ignore[arg-type]
    assert sum(bars.y) == 200
    for empty in (view([[NAN]]), view([[3.0]])):
        assert go.Figure(histogram_figure(empty, colours, 100)).data[0].x is not None  # type: ignore[arg-type]
        one = picture_of(empty)
        assert len(go.Figure(heat_figure(empty, one, scale_of(one.cells, True), colours, 100)).data) == 1  # type: ignore[arg-type]


def test_the_corner_holds_the_exact_numbers() -> None:
    shown = view(random(9, 9), start=100)
    frame = corner_table(shown, 7, 6, 4, 5)
    assert frame.columns.tolist() == ["position", "6", "7", "8"]
    assert frame["position"].tolist() == [107, 108]
    assert np.array_equal(frame.iloc[:, 1:].to_numpy().astype(np.float32), shown.values[7:, 6:])
    assert np.array_equal(matrix_table(shown).iloc[:, 1:].to_numpy().astype(np.float32), shown.values)


def test_nine_digits_tell_every_float32_apart() -> None:
    for value in random(300):
        assert np.float32(f"{float(value):.9g}") == value


def test_the_map_has_a_place_for_every_stage() -> None:
    program = build_program(TINY)
    data = program_map(program, 7, step=3, run_id="r1", asked=4, marked=None)
    assert (data["pc"], data["total"], data["before"], data["layers"], len(data["columns"])) == (7, 47, 3, 3, 11)
    assert data["layer_ends"] == [14, 25, 36]
    assert [data["names"][end - 1] for end in data["layer_ends"]] == ["mlp_out"] * 3
    assert data["columns"][data["mlp"]] == "mlp_norm"
    assert data["sentences"].keys() == set(data["names"])


def facts(**changes: object) -> TensorFacts:
    values = {"num_nan": 0, "num_inf": 0, "num_hidden": 0} | changes
    return TensorFacts("T E", (5, 28), "float32", 140, 2.5, -1.0, 1.5, 0.01, **values)  # type: ignore[arg-type]


def test_fields_say_their_shape_in_letters_and_numbers() -> None:
    fields = (FieldLook("reads", "groups", None, "1 group"), FieldLook("writes", "z", facts(), ""))
    frame = fields_table(StageLook(3, "x", 0, "s.", "f", fields, ()))
    assert frame["shape or content"].tolist() == ["1 group", "T E = 5×28"]
    assert "not finite" not in frame
    fields = (FieldLook("writes", "z", facts(num_nan=2, num_inf=1), ""),)
    assert fields_table(StageLook(3, "x", 0, "s.", "f", fields, ()))["not finite"].tolist() == [3]
    assert "3 not finite (2 NaN)" in facts_words(facts(num_nan=2, num_inf=1))
    assert "all finite, 7 hidden or cut (−∞)" in facts_words(facts(num_hidden=7))
    ids = TensorFacts("T", (5,), "int64", 5, 5900.0, 282, 4650, 2664.8, 0, 0, 0)
    frame = fields_table(StageLook(3, "x", 0, "s.", "f", (FieldLook("reads", "input_ids", ids, ""),), ()))
    assert frame["norm"].isna().all(), "ids are names"
    assert facts_words(ids) == "min 282 · max 4,650 · whole numbers that name something"


def test_tables_and_figures_of_a_whole_step_hold_its_numbers() -> None:
    run = live_run()
    for _ in range(3):
        run.step()
    rows = finished(read_stage_rows(run, rows_of(run, 1), 4))
    watched = rows.over_layers("q")
    frame = watch_table(watched, 13)
    assert frame["value 13"].tolist() == [float(t.values[1, 5]) for t in watched]
    np.testing.assert_allclose(frame["norm"], rows.norms["q"][:, 4], rtol=1e-5)
    assert stream_table(rows.norms, 4)["resid_post"].tolist() == rows.norms["resid_post"][:, 4].tolist()
    assert norms_table(rows.norms["z"], 0)["6"].tolist() == rows.norms["z"][:, 6].tolist()
    figure = go.Figure(stream_figure(rows.norms["resid_post"], 0, 1, 4, LIGHT, 300))
    assert np.allclose(10 ** figure.data[0].z, rows.norms["resid_post"])
    lines = go.Figure(lines_figure({"a": [1, 10, 1000], "b": [1, 2, 3]}, DARK, 200, y="y", log=True))
    assert lines.data[1].y == (1, 2, 3)

    lens = logit_lens(run, rows)
    table = lens_table(lens, str)
    assert table["rank of the final token"].tolist() == lens.final_ranks.tolist()
    assert table["best token"].tolist() == [str(i) for i in lens.top_ids[:, 0]]
    assert table["rank of the run's next token"].tolist() == lens.next_ranks.tolist()  # type: ignore[union-attr]
    picture = go.Figure(lens_figure(lens, lambda i: f"<{i}>", LIGHT, 300)).data[0]
    assert np.array_equal(picture.z, lens.top_probs)
    assert picture.text[-1][0] == f"<b>&lt;{lens.final_id}&gt;</b>"

    found = finished(check_identities(run, rows_of(run, 1)))
    assert identities_table(found)[""].tolist() == ["✓"] * len(found)
    by_layer = identities_by_layer(found, 3)
    assert by_layer["the stream goes on"].isna().tolist() == [True, False, False]

    ways = finished(compare_both_ways(run, 4))
    names, matrix = two_ways_matrix(ways, 3)
    assert matrix.shape == (len(names), 3)
    last = [d.largest for d in ways.comparison.differences if d.name == "q" and d.stage == "rope"]
    assert matrix[names.index("q")].tolist() == pytest.approx(last)
    assert len(two_ways_table(ways)) == len(ways.prefill)
    a, b = ways.prefill[-1], ways.decode[-1]
    worst = values_table(a, b, 3)
    assert abs(worst["difference"].iloc[0]) == pytest.approx(float(np.abs(a.values - b.values).max()), rel=1e-5)
    assert np.array_equal(go.Figure(difference_figure(matrix, names, DARK, 200)).data[0].customdata, matrix)


def test_what_is_bit_equal_everywhere_has_no_scale() -> None:
    equal, differs = np.zeros((2, 3), np.float32), np.array([[0, 1e-6, 2e-6], [0, 0, 0]], np.float32)
    shown = [difference_figure(d, ["q", "k"], LIGHT, 300)["data"][0]["showscale"] for d in (equal, differs)]
    assert shown == [False, True]
