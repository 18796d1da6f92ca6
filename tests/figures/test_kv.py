"""Figures and tables of the KV cache page carry the numbers they were given; formulas against hand-worked facts."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from miniinfer.figures.kv.plots import (
    WINDOW,
    cache_figure,
    norms_figure,
    query_figure,
    reading_figure,
    vector_figure,
    window_of,
)
from miniinfer.figures.kv.pool_plots import block_kind, block_sizes_figure, growth_figure, pool_figure, steps_figure
from miniinfer.figures.kv.shapes import (
    GIB,
    KNOWN,
    GhostLine,
    KVShape,
    known_lines,
    own_lines,
    shape_of,
)
from miniinfer.figures.kv.tables import (
    block_sizes_table,
    block_table,
    blocks_table,
    cache_table,
    copies_table,
    norms_table,
    reading_table,
    steps_table,
    vector_table,
)
from miniinfer.figures.kv.words import about, exact, next_write_words, pool_words, spans, three_numbers, waste_words
from miniinfer.figures.palette import DARK, LIGHT
from miniinfer.figures.tables import frame_to_csv
from miniinfer.trace.kv.pool import pool_view
from miniinfer.trace.kv.vectors import cached_vectors, reading_of
from miniinfer.trace.run import ForceToken
from tests.trace.live import finished_run, live_run

HOSTILE = "<img src=x>"


def text(position: int) -> str:
    return HOSTILE if position == 1 else f"t{position}"


def known(name: str) -> KVShape:
    return next(shape for shape in KNOWN if shape.name == name)


@pytest.fixture(scope="module")
def looked():
    """A run of the tiny model with a branch, and one head of its cache."""
    run = live_run()
    for _ in range(7):
        run.step()
    branch = run.fork(ForceToken(4, 7), "r2", "b")
    branch.step()
    cached = cached_vectors(run, 1, 1, run.seq.num_computed_tokens)
    return run, branch, cached, reading_of(run, cached), pool_view(run, [run, branch])


def test_vectors_in_figure_table_and_csv_are_exact(looked) -> None:
    _, _, cached, reading, _ = looked
    figure = vector_figure(cached, 5, LIGHT)
    assert np.array_equal(np.asarray(figure.data[0].y, np.float32), cached.keys[5])
    assert np.array_equal(np.asarray(figure.data[1].y, np.float32), cached.values[5])
    table = vector_table(cached, 5, reading)
    assert len(table) == 8
    queries = [f"q of head {head}, not cached" for head in range(5, 10)]
    assert [c for c in table.columns if c.endswith("not cached")] == queries
    read = pd.read_csv(io.StringIO(frame_to_csv(table)), dtype=np.float32)
    assert np.array_equal(read["K (after RoPE)"].to_numpy(), cached.keys[5])
    assert np.array_equal(read["V"].to_numpy(), cached.values[5])
    assert np.array_equal(read["q of head 7, not cached"].to_numpy(), reading.q[2])
    whole = cache_table(cached, text)
    assert np.array_equal(whole[[f"k{d}" for d in range(8)]].to_numpy(), cached.keys)
    assert np.array_equal(whole[[f"v{d}" for d in range(8)]].to_numpy(), cached.values)
    assert list(zip(whole["block"], whole["slot"], strict=True)) == list(cached.block_of)


def test_the_heat_map_shows_a_window_around_the_position(looked) -> None:
    _, _, cached, _, _ = looked
    figure = cache_figure(cached, 11, text, LIGHT)
    assert np.array_equal(np.asarray(figure.data[0].z, np.float32), cached.keys)
    assert np.array_equal(np.asarray(figure.data[1].z, np.float32), cached.values)
    assert [s.y0 for s in figure.layout.shapes] == [10.5, 10.5]
    assert "<img" not in figure.to_json()
    long = type(cached)(0, 0, np.zeros((300, 8), np.float32), np.zeros((300, 8), np.float32), ((0, 0),) * 300)
    assert window_of(long, 0) == (0, WINDOW)
    assert window_of(long, 150) == (150 - WINDOW // 2, 150 + WINDOW // 2)
    assert window_of(long, 299) == (300 - WINDOW, 300)


def test_weights_and_queries_in_figures_and_table(looked) -> None:
    _, _, cached, reading, _ = looked
    figure = reading_figure(cached, reading, text, DARK)
    table = reading_table(cached, reading, text)
    for g, head in enumerate(reading.heads):
        assert np.array_equal(np.asarray(figure.data[g].y, np.float32), reading.weights[g])
        assert np.array_equal(table[f"weight, head {head}"].to_numpy(), reading.weights[g])
        assert np.array_equal(table[f"score, head {head}"].to_numpy(), reading.scores[g])
    assert "<img" not in figure.to_json()
    assert np.array_equal(np.asarray(query_figure(reading, LIGHT).data[0].z, np.float32), reading.q)


def test_the_pool_in_figure_and_tables(looked) -> None:
    run, branch, _, _, pool = looked
    table = blocks_table(pool).set_index("block")
    assert table["ref_count"].tolist() == run.engine.pool.ref_counts
    assert table["used bytes"].sum() == run.engine.used_bytes()
    assert table["allocated bytes"].sum() == run.engine.allocated_bytes()
    assert table["state"].value_counts().to_dict() == {"shared": 2, "used": 3, "free": 3}
    mine = block_table(pool)
    assert mine["physical"].tolist() == run.seq.block_table
    assert mine["shared with"].tolist() == ["r2", "r2", "", ""]
    copies = copies_table(pool)
    assert copies[["run", "step", "from", "to"]].values.tolist() == [
        ["r2", 5, run.seq.block_table[2], branch.seq.block_table[2]]
    ]
    figure = pool_figure(pool, (run.seq.block_table[2], 3), LIGHT)
    drawn = {}
    for trace in figure.data:
        if trace.type == "bar" and trace.name in ("this run alone", "this run, shared", "other runs"):
            drawn |= {x: (trace.name, y) for x, y in zip(trace.x, trace.y, strict=True)}
    assert drawn == {b.number: (block_kind(b, "r1"), b.filled) for b in pool.blocks if b.ref_count}
    assert {name for name, _ in drawn.values()} == {"this run alone", "this run, shared", "other runs"}
    [ring] = figure.layout.shapes
    assert (ring.y0, ring.y1) == (3, 4)


def test_words_about_the_pool(looked) -> None:
    run, branch, _, _, pool = looked
    block = 4 * 384
    assert pool_words(pool) == (
        f"Pool of 2 runs: used {16 * 384:,} B · allocated {5 * block:,} B (5 blocks) · reserved "
        f"{run.engine.reserved_bytes():,} B (8 blocks of {block:,} B, the bytes of the storage itself). "
        f"Free: {spans(pool.free)}. 2 blocks shared, which saves {2 * block:,} B."
    )
    assert waste_words(pool) == (
        "4 blocks of 4 slots hold 13 positions; 3 slots of the last block are empty: 1,152 B allocated and not used."
    )
    assert "position 13, goes into slot 1 of block" in next_write_words(pool.next_write, None)
    full = pool_view(run.fork(ForceToken(6, 9), "r4", ""))
    assert "finds every block of this run full" in next_write_words(full.next_write, None)
    assert "goes into slot 3 of block" in next_write_words(pool_view(branch).next_write, None)
    assert "copied first" in next_write_words(pool_view(branch.fork(ForceToken(5, 9), "r3", "")).next_write, None)
    assert "ended (length)" in next_write_words(None, "length")


def test_other_block_sizes() -> None:
    table = block_sizes_table(37, 46_080, (1, 16, 64), 16)
    assert table["blocks"].tolist() == [37, 3, 1]
    assert table["empty slots"].tolist() == [0, 11, 27]
    assert table["allocated bytes"].tolist() == [37 * 46_080, 48 * 46_080, 64 * 46_080]
    assert table[""].tolist() == ["", "this run", ""]
    figure = block_sizes_figure(table, LIGHT)
    assert (np.asarray(figure.data[0].y) == 37 * 46_080).all()
    assert list(figure.data[1].y) == table["wasted bytes"].tolist()


def test_steps_and_growth_carry_the_counted_bytes() -> None:
    run = finished_run()
    table = steps_table(run.steps)
    assert table["used bytes"].tolist() == [m.context_len * 384 for m in run.steps]
    assert table["written bytes"].sum() == run.engine.used_bytes(run.seq)
    figure = steps_figure(run.steps, 3, LIGHT, log=True)
    for trace, column in zip(figure.data, ("used bytes", "allocated bytes", "reserved bytes"), strict=True):
        assert list(trace.y) == table[column].tolist()
    shape = shape_of("tiny", run.info.model)
    lines = [*own_lines(shape, 4, 0), *known_lines([known("Llama-2-7B")], "int8", weights=False)]
    dots = [(m.context_len, m.kv_used_bytes) for m in run.steps]
    for log in (False, True):
        growth = growth_figure(lines, dots, ("half a GiB", GIB // 2), DARK, log_x=log, log_y=log)
        by_name = {trace.name: trace for trace in growth.data if trace.name}
        for line in lines:
            drawn = by_name[line.label]
            assert [line.at(x) for x in drawn.x] == list(drawn.y)
            assert drawn.x[-1] == line.shape.context_length, "a line ends where its model's context does"
        counted = by_name["counted in this run's steps"]
        assert all(lines[0].at(x) == y for x, y in zip(counted.x, counted.y, strict=True)), "the dots lie on the line"
        crosses = [trace for trace in growth.data if trace.mode == "markers" and not trace.name]
        assert [list(cross.x) for cross in crosses] == [[2048]], "only one of these lines is full before its end"
    assert GhostLine("a", shape, 4).full_at(383) == 0


def test_norms_of_a_recorded_run() -> None:
    run = finished_run()
    norms = run.kv_norms(0)
    figure = norms_figure(norms, text, LIGHT)
    assert np.array_equal(np.asarray(figure.data[1].z, np.float32), norms[:, :, 1].T)
    table = norms_table(norms, text)
    row = table[(table["position"] == 4) & (table["layer"] == 2)]
    assert row["norm of K"].item() == norms[4, 2, 0]


def test_bytes_in_words() -> None:
    assert exact(1_704_960) == "1,704,960 B"
    assert (about(1_704_960), about(512), about(2**31)) == ("1.63 MiB", "512 B", "2 GiB")
    assert spans([0, 1, 2, 5, 7, 8]) == "0 to 2, 5, 7 to 8"
    assert spans([]) == "none"
    run = finished_run()
    words = three_numbers(run.steps[2])
    assert words == (
        f"After step 3 the cache holds 9 positions of this run: used {9 * 384:,} B · allocated {12 * 384:,} B (whole "
        f"blocks) · reserved {run.steps[2].kv_reserved_bytes:,} B (the whole pool)."
    )
    assert "used 0 B" in three_numbers(None)
