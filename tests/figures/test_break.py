"""Words, tables and figures of two runs side by side: the record's own numbers, and texts that are no markup."""

from __future__ import annotations

import math

import numpy as np
import pytest

from miniinfer.figures.break_it import words as break_words
from miniinfer.figures.break_it.plots import SHOWN, growth_figure, loss_figure, next_tokens_figure
from miniinfer.figures.break_it.tables import growth_table, loss_table, next_tokens_table, stages_table
from miniinfer.figures.palette import DARK, LIGHT
from miniinfer.trace.compare import RunComparison, StageDifference, compare_outputs
from miniinfer.trace.lockstep import FirstStage, LockstepRecord, NextBars, SideRecord
from miniinfer.trace.records import NextToken, TokenInfo
from miniinfer.trace.text_loss import TextLoss

HOSTILE = "<b>x</b>&amp;"
TOKENS = tuple(TokenInfo(i, HOSTILE if i == 0 else f" t{i}", b"") for i in range(9))


def chosen(token_id: int, probs=(0.5, 0.3, 0.2)) -> NextToken:
    return NextToken(
        TOKENS[:3], probs, (1.0, 0.0, 0.0), (None,) * 3, 3, 0, 0.0, 0.0, 1.0, 0.0, 0.0, True, 0.5, 0.0, 1.0, token_id,
    )  # fmt: skip


def record(a=(0, 1), b=(0, 2), first: FirstStage | None = None, growth=(0.0, 0.5)) -> LockstepRecord:
    sides = [SideRecord(TOKENS[:2], tuple(map(chosen, ids)), "length", None) for ids in (a, b)]
    comparison = RunComparison(True, compare_outputs(sides[0].outputs, sides[1].outputs))
    return LockstepRecord(sides[0], sides[1], first, (), growth, 2, comparison, ())


def first(stage="rope", layer=3, name="k", largest=0.25, shapes=((2, 3), (2, 3))) -> FirstStage:
    return FirstStage(1, "prefill", StageDifference(stage, layer, name, largest), shapes)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (first(), ("rope, layer 3", "step 1, prefill · k · differs by up to 0.25")),
        (
            first("embed", None, "x", math.inf),
            ("embed", "step 1, prefill · x · one side hides (−∞) what the other sees"),
        ),
        (
            first("embed", None, "ids", math.inf, ((5,), (6, 2))),
            ("embed", "step 1, prefill · ids · 5 in one, 6 × 2 in the other"),
        ),
        (None, ("none", "2 steps compared: every tensor is equal, bit for bit")),
    ],
)
def test_the_first_stage_in_words(found, expected):
    assert break_words.first_stage(record(first=found)) == expected


def test_the_first_token_in_words():
    where, margin = break_words.first_token(record())
    assert where == "output token 2"
    assert margin.startswith(f"margin {math.log(0.5 / 0.3):.3g}: ln(p1 / p2)")
    assert break_words.first_token(record(b=(0, 1))) == ("none", "all 2 output tokens are equal")
    assert break_words.first_token(record(b=(0,)))[0] == "after 1"
    assert break_words.first_token(record(b=(1,)))[0] == "output token 1"


def test_a_near_tie_is_called_one():
    sides = [SideRecord((), (chosen(i, (0.5, 0.4999, 0.0001)),), "length", None) for i in (0, 1)]
    comparison = RunComparison(True, compare_outputs(sides[0].outputs, sides[1].outputs))
    found = LockstepRecord(sides[0], sides[1], None, (), (), 1, comparison, ())
    assert break_words.first_token(found)[1].startswith("a near tie")


def test_losses_in_words():
    one, other = TextLoss((1.0, 2.0)), TextLoss((1.0, 5.0))
    assert break_words.loss((one, other)) == ("1.5000 → 3.0000", "+1.5 nats a token")
    assert break_words.loss((other, one)) == ("3.0000 → 1.5000", "−1.5 nats a token")
    assert break_words.loss((one, one)) == ("1.5000", "equal, bit for bit")


def bars(index=0, a=True, b=True, taken=(0, 8)) -> NextBars:
    falling = tuple(2.0**-n for n in range(1, 10))
    rising = tuple(reversed(falling))
    return NextBars(index, TOKENS, falling if a else None, rising if b else None, taken)


def test_bars_show_both_sides_and_every_token_that_was_taken():
    figure = next_tokens_figure([bars(), bars(1, b=False, taken=(1, None))], str, LIGHT, 300)
    assert [trace.name for trace in figure.data] == ["healthy", "broken"] * 2
    axis = figure.layout.yaxis.ticktext
    assert len(axis) == SHOWN
    assert axis[0] == "<b>&lt;b&gt;x&lt;/b&gt;&amp;amp;</b>"
    assert axis[-1] == "<b> t8</b>", "taken by one side, although it is the last of the other"
    assert figure.data[0].x == (0.5, 0.25, 0.125, 0.0625, 0.03125, 2.0**-9)
    assert figure.data[1].x[-1] == 0.5
    assert figure.data[3].x == (None,) * SHOWN
    assert set(figure.data[3].customdata) == {"ended"}
    assert [a.text for a in figure.layout.annotations] == ["output token 1", "output token 2"]


def test_a_probability_too_small_to_print_is_said_to_be_small():
    small = NextBars(0, TOKENS[:2], (1.0, 1e-9), (0.0, 1e-3), (0, 0))
    figure = next_tokens_figure([small], str, DARK, 300)
    assert figure.data[0].text == ("100 %", "< 0.01 %")
    assert figure.data[1].text == ("0 %", "0.1 %")


def test_growth_leaves_out_what_a_logarithm_cannot_hold():
    growth = (0.0, 0.5, math.inf, math.nan, 2.0)
    figure = growth_figure(growth, LIGHT, 300)
    assert figure.data[0].y == (None, 0.5, None, None, 2.0)
    assert figure.layout.yaxis.type == "log"
    table = growth_table(growth)
    assert list(table["layer"]) == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(table["relative difference"], growth)


def test_the_loss_of_each_token_stands_in_figure_and_table():
    sides = TextLoss((0.5, 1.5)), TextLoss((0.25, 2.5))
    figure = loss_figure([t.text for t in TOKENS[:2]], sides, str, LIGHT, 200)
    assert figure.data[0].y == (0.5, 1.5)
    assert figure.data[1].y == (0.25, 2.5)
    assert figure.data[0].name == "healthy, mean 1.0000"
    assert figure.layout.xaxis.ticktext[0] == "&lt;b&gt;x&lt;/b&gt;&amp;amp;"
    table = loss_table(TOKENS[:3], sides, (sides[1], sides[0]))
    assert list(table["token"]) == [" t1", " t2"]
    assert list(table["one pass, broken"]) == [0.25, 2.5]
    assert list(table["token by token, broken"]) == [0.5, 1.5]


def test_tables_hold_what_the_record_holds():
    table = next_tokens_table([bars(b=False)])
    assert len(table) == len(TOKENS)
    assert list(table["healthy"][:2]) == [0.5, 0.25]
    assert table["broken"].isna().all()
    assert list(table["taken by"])[::8] == ["healthy", "broken"]
    stages = stages_table([StageDifference("embed", None, "resid_pre", 0.0), StageDifference("rope", 2, "q", 1.5)])
    assert stages["layer"].isna().tolist() == [True, False]
    assert list(stages["largest difference"]) == [0.0, 1.5]
    assert list(stages_table([]).columns) == ["stage", "layer", "tensor", "largest difference"]
    assert list(next_tokens_table([]).columns)[:3] == ["output", "token_id", "token"]
