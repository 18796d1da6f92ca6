"""The tree of runs as a figure: which dots, edges, labels and marks there are, and that labels keep apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import plotly.graph_objects as go
import pytest

from miniinfer.config import SamplingParams
from miniinfer.figures.palette import DARK, LIGHT
from miniinfer.figures.sampling import run_tree
from miniinfer.figures.sampling.run_tree import tree_figure
from miniinfer.figures.sampling.tables import tree_table
from miniinfer.figures.sampling.tree_layout import CHARACTER, FEWEST, OFFSET, labels_of, lanes_of, ticks
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.records import TokenInfo
from miniinfer.trace.run import ChangeParams, ForceToken, Run
from miniinfer.trace.tree import tree_of
from tests.trace.files.recorded import make_run
from tests.trace.live import PROMPT, finished_run, live_run

HOSTILE = "<img src=x onerror=alert(1)> <b>a</b> & $x$"


def text(token: TokenInfo) -> str:
    return f"<t{token.token_id}>"


def draw(runs: Sequence[Run], current: str = "r1", cursor: int = 1) -> go.Figure:
    return tree_figure(tree_of(runs), current, cursor, text, LIGHT)


def named(figure: go.Figure, name: str) -> go.Scatter:
    return next(trace for trace in figure.data if trace.name == name)


def dots(figure: go.Figure) -> dict[tuple[str, int], tuple[float, float]]:
    """(run id, step) -> (x, lane) of all dots."""
    found = [trace for trace in figure.data if trace.customdata is not None]
    return {
        (data[0], data[1]): (x, y) for t in found for data, x, y in zip(t.customdata, t.x, t.y, strict=True)
    }


def nested(count: int) -> list[LiveRun]:
    """A root and count - 1 branches, each of the one before it, one output token later."""
    runs = [finished_run()]
    for n in range(2, count + 1):
        branch = runs[-1].fork(ForceToken(min(n, 12), 7 + n), f"r{n}", f"a long name of branch number {n}")
        while branch.step():
            pass
        runs.append(branch)
    return runs


def test_one_run_is_one_lane_with_a_dot_for_each_output_token() -> None:
    run = finished_run()
    figure = draw([run], cursor=3)
    assert dots(figure) == {("r1", step): (step, 0) for step in range(1, 13)}
    assert [t.name for t in figure.data if t.name] == ["you are here"]
    assert (named(figure, "you are here").x, named(figure, "you are here").y) == ((3.0,), (0,))
    assert figure.layout.yaxis.ticktext == ("<b>r1  r1</b>",)


def test_a_prompt_read_token_by_token_has_its_dots_at_the_same_places() -> None:
    run = live_run(chunk=1)
    while run.step():
        pass
    figure = draw([run], cursor=len(PROMPT))
    assert dots(figure) == {("r1", len(PROMPT) + n): (n + 1, 0) for n in range(12)}
    assert named(figure, "you are here").x == (1.0,)


def test_a_run_that_has_no_token_yet_is_drawn_too() -> None:
    run = live_run()
    figure = draw([run], cursor=0)
    assert dots(figure) == {}
    assert figure.layout.xaxis.range[1] == FEWEST + 1
    assert named(figure, "you are here").x[0] < 0


def test_edges_leave_the_lane_on_which_the_common_token_stands() -> None:
    run = finished_run()
    branch = run.fork(ForceToken(8, 11), "r2", "b")
    early = branch.fork(ForceToken(4, 12), "r3", "e")  # of what r2 has in common with r1
    changed = run.fork(ChangeParams(10, SamplingParams(temperature=0, max_new_tokens=12)), "r4", "c")
    figure = draw([run, branch, early, changed])
    lanes = {node.run.info.run_id: lane for lane, node in enumerate(tree_of([run, branch, early, changed]))}
    assert lanes == {"r1": 0, "r4": 1, "r2": 2, "r3": 3}
    edge = named(figure, "forced token")
    assert list(zip(edge.x, edge.y, strict=True)) == [
        (7, 0), (7, 2), (8, 2), (None, None), (3, 0), (3, 3), (4, 3), (None, None),
    ]  # fmt: skip
    assert named(figure, "new settings").line.dash == "dot"
    found = dots(figure)
    assert found["r2", 8] == (8, 2)
    assert ("r2", 7) not in found, "it is drawn once, on the trunk"


def test_the_cursor_stands_on_the_trunk_before_the_branch_left_it() -> None:
    run = finished_run()
    branch = run.fork(ForceToken(8, 11), "r2", "b")
    for cursor, place in ((8, (8, 1)), (7, (7, 0)), (1, (1, 0))):
        mark = named(draw([run, branch], "r2", cursor), "you are here")
        assert (mark.x[0], mark.y[0]) == place


def test_the_first_difference_is_where_the_tokens_differ_and_not_where_the_settings_did() -> None:
    run = finished_run()
    same = run.info.params
    branch = run.fork(ChangeParams(4, dataclasses.replace(same, max_new_tokens=11)), "r2", "as the trunk")
    while branch.step():
        pass
    assert "first difference" not in [t.name for t in draw([run, branch]).data]
    other = run.fork(ForceToken(9, (run.steps[8].token_id or 0) + 1), "r3", "other")
    mark = named(draw([run, branch, other]), "first difference")
    assert (mark.x, mark.y) == ((9,), (1,))


def test_the_band_covers_the_positions_that_lie_in_shared_blocks() -> None:
    """Blocks of 4, prompt of 7: position 7 is output token 1."""
    run = finished_run()
    branch = run.fork(ForceToken(4, 11), "r2", "b")
    band = named(draw([run, branch]), "shared KV cache")
    assert (band.x[-1], band.y[-1]) == (3, 0)
    block = run.engine.kv_cache.block_bytes
    assert f"10 positions from the same blocks: {10 * block // 4:,} bytes used, {3 * block:,} allocated" in band.text[0]
    branch.step()
    assert named(draw([run, branch]), "shared KV cache").x[-1] == 1


def test_labels_have_the_models_probability_and_do_not_lie_on_each_other() -> None:
    runs = nested(8)
    runs += [runs[0].fork(ForceToken(step, 60), f"r{20 + step}", "b") for step in (3, 4, 5)]
    lanes = lanes_of(tree_of(runs))
    labels = labels_of(lanes, text)
    assert sum(label.branch for label in labels) == len(runs) - 1
    for lane in range(len(runs)):
        spans = []
        for label in (each for each in labels if each.lane == lane):
            width = CHARACTER * len(label.text) * lanes.px
            spans.append((label.x - width, label.x) if label.to_the_left else (label.x, label.x + width))
        for (_, end), (start, _) in zip(sorted(spans), sorted(spans)[1:], strict=False):
            assert end <= start + OFFSET * lanes.px
    node = next(n for n in lanes.nodes if n.run.info.run_id == "r2")
    assert node.edge is not None
    mine = next(label for label in labels if label.lane == lanes.lane["r2"] and label.branch)
    assert mine.text.startswith(f"<t{node.edge.token.token_id}> ")


def test_twelve_nested_branches_with_long_names_have_a_lane_each() -> None:
    runs = nested(12)
    for colours in (LIGHT, DARK):
        figure = tree_figure(tree_of(runs), "r12", 12, text, colours)
        assert len(figure.layout.yaxis.ticktext) == 12
        assert len(set(figure.layout.yaxis.ticktext)) == 12
        assert max(len(name) for name in figure.layout.yaxis.ticktext) < 40
        assert figure.layout.height < 520


def test_hostile_names_and_tokens_are_no_markup() -> None:
    run = finished_run()
    branch = run.fork(ForceToken(8, 11), "r2", HOSTILE)
    figure = tree_figure(tree_of([run, branch]), "r2", 8, lambda token: HOSTILE, LIGHT)
    words = figure.to_json()
    assert "<img" not in words
    assert "<b>a" not in words
    assert tree_table(tree_of([run, branch]), "r2", lambda token: HOSTILE)["name"][1] == HOSTILE


def test_runs_of_another_model_have_their_own_texts() -> None:
    other = make_run(run_id="r9")
    figure = tree_figure(tree_of([finished_run(), other]), "r1", 1, lambda token: token.text, LIGHT)
    words = [data[2] for trace in figure.data if trace.customdata for data in trace.customdata if data[0] == "r9"]
    assert [word[3] for word in words] == [token.text for token in other.tokens[other.info.num_prompt_tokens :]]


def test_very_many_tokens_have_fewer_dots_and_all_forced_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_tree, "MOST_DOTS", 10)
    runs = nested(4)
    runs += [runs[0].fork(ForceToken(1, 50 + n), f"r1{n}", "b") for n in range(3)]
    for run in runs[4:]:
        while run.step():
            pass
    found = dots(draw(runs))
    assert 8 <= len(found) <= 10 + 6
    assert {("r2", 2), ("r3", 3), ("r4", 4), ("r10", 1), ("r11", 1), ("r12", 1)} <= found.keys()


def test_ticks_are_whole_and_few() -> None:
    for last in (8, 12, 32, 100, 8192, 40_000):
        found = ticks(last)
        assert found[0] == 1
        assert found[-1] <= last
        assert 4 <= len(found) <= 18


def test_the_table_twin_has_the_numbers_of_the_figure() -> None:
    run = finished_run()
    branch = run.fork(ForceToken(4, 11), "r2", "b")
    nodes = tree_of([run, branch])
    row = tree_table(nodes, "r2", text).iloc[1]
    kv, edge = nodes[1].kv, nodes[1].edge
    assert kv is not None
    assert edge is not None
    assert (row[""], row["run"], row["trunk"], row["output token"], row["took"]) == ("●", "r2", "r1", 4, "<t11>")
    assert (row["model assigned"], row["settings assigned"]) == (edge.raw_prob, edge.used_prob)
    assert (row["shared, used"], row["shared, allocated"]) == (kv.shared_used_bytes, kv.shared_allocated_bytes)
    assert (row["KV used"], row["KV allocated"]) == (kv.used_bytes, kv.allocated_bytes)
