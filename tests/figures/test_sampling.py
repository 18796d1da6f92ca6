"""The sampler in words, tables and plots: each number by hand, each hostile text as text."""

from __future__ import annotations

import pytest
import torch

from miniinfer.config import SamplingParams
from miniinfer.figures.palette import palette
from miniinfer.figures.quoting import isolated, quoted
from miniinfer.figures.sampling import plots, tables
from miniinfer.figures.sampling.token_search import search_tokens
from miniinfer.figures.sampling.words import counted, describe_order, fate, for_plotly, percent, setting
from miniinfer.trace.sampling.draws import draw_many, sweep_temperature
from miniinfer.trace.sampling.prediction import Guess, score
from miniinfer.trace.sampling.sampling import ORDERS, Sampling, sampling_of

HOSTILE = "<img src=x onerror=alert(1)>"
LIGHT = palette(dark=False)
PROBS = (0.4, 0.3, 0.15, 0.1, 0.05)


def of(
    probs: tuple[float, ...] = PROBS, prompt: tuple[int, ...] = (), output: tuple[int, ...] = (), **changes: object
) -> Sampling:
    params = SamplingParams(**{"temperature": 1.0, "top_p": 1.0} | changes)  # type: ignore[arg-type]
    return sampling_of(torch.log(torch.tensor(probs)), params, prompt, output, coin=0.5)


def text(token_id: int) -> str:
    return HOSTILE if token_id == 1 else f"t{token_id}"


def test_why_a_token_fell_at_top_p() -> None:
    became = fate(of(top_p=0.8), 3)
    assert (became.at, became.why) == ("Top-p", "0.8 was reached at rank 3; this was rank 4")


def test_why_a_token_fell_at_top_k_after_an_earlier_filter() -> None:
    assert fate(of(top_k=2), 4).why == "the best 2 stay; this was rank 5"
    sampling = of(top_k=4, top_p=0.5)
    assert fate(sampling, 4).at == "Top-k"
    assert fate(sampling, 2).at == "Top-p"


def test_why_a_token_fell_at_min_p() -> None:
    assert fate(of(min_p=0.3), 3).why == "at least 12 % was needed, 0.3 of the best one's 40 %; this had 10 %"


def test_tokens_that_stay_and_greedy() -> None:
    assert fate(of(), 0).why == "stays, and can be drawn with 40 %"
    greedy = of(temperature=0.0)
    assert fate(greedy, 0).at == ""
    behind = fate(greedy, 1)
    assert behind.at == "Greedy"
    assert behind.why == "greedy takes the best one; this was rank 2, 0.288 logits behind"
    assert "lowest id" in fate(of((0.5, 0.5), temperature=0.0), 1).why


@pytest.mark.parametrize(
    ("p", "words"),
    [
        (0, "0 %"), (0.135, "13.5 %"), (0.0012, "0.12 %"), (1e-7, "0.00001 %"), (5.1e-6, "0.00051 %"),
        (3e-10, "3.0e-08 %"), (1, "100 %"), (0.99951, "99.95 %"),
    ],
)  # fmt: skip
def test_percent(p: float, words: str) -> None:
    assert percent(p) == words


def test_settings_in_words() -> None:
    params = SamplingParams(temperature=0, top_k=40)
    assert setting("temperature", params) == "0 = greedy"
    assert setting("top_k", params) == "idle: greedy"
    assert setting("min_p", params) == "off"
    assert describe_order(tuple(ORDERS.values())[1]).endswith("Min-p → Temperature")
    assert describe_order(()) == "no stage at all"


def test_the_stages_table() -> None:
    frame = tables.stages_table(of(top_k=2), text)
    assert frame["stage"].tolist() == [
        "Model's logits", "Repetition", "Presence, frequency", "Temperature", "Top-k", "Top-p", "Min-p", "Softmax",
        "Draw",
    ]  # fmt: skip
    cut = frame.set_index("stage").loc["Top-k"]
    assert (cut["tokens left"], cut["cut here"]) == (2, 3)
    assert cut["mass cut"] == pytest.approx(0.3, abs=1e-6)
    assert frame["tokens left"].tolist() == [5, 5, 5, 5, 2, 2, 2, 2, 1]
    assert frame["mass cut"].isna().tolist() == [False, True, True, True, False, True, True, True, False]
    before, after = frame["entropy before"].tolist(), frame["entropy after"].tolist()
    assert before[1:] == after[:-1]


def test_the_orders_table_puts_those_first_that_survive_in_only_one() -> None:
    first, last = (of(temperature=0.5, top_p=0.8, order=order) for order in ORDERS.values())
    frame = tables.orders_table(first, last, ("A", "B"), text, 10)
    assert frame["survives"].tolist() == ["only B", "both", "both"]
    assert frame["why not in the other"][0].startswith("Top-p: 0.8 was reached at rank 2")
    assert tables.survivors_count(first, last) == (2, 0, 1)


def test_penalties_are_listed_with_how_often_they_counted() -> None:
    sampling = of(prompt=(0, 2), output=(0, 3, 3), repetition_penalty=2.0, presence_penalty=0.5, frequency_penalty=0.25)
    assert counted(sampling) == [(0, 1, 1), (3, 0, 2), (2, 1, 0)]
    frame = tables.penalties_table(sampling, text).set_index("id")
    assert frame.loc[0, "in prompt"] == "once"
    assert frame.loc[3, "in output"] == "twice"
    assert frame.loc[3, "by the others"] == pytest.approx(-1.0)
    assert frame.loc[2, "by the others"] == 0
    assert frame.loc[2, "by repetition"] == pytest.approx(sampling.raw.logits[2])  # below 0: times 2


def test_the_draws_table_adds_up() -> None:
    draws = draw_many(of(), [i / 1000 for i in range(1000)])
    frame = tables.draws_table(draws, [0, 1], text)
    assert frame["drawn"].sum() == 1000
    assert frame["probability"].sum() == pytest.approx(1)
    assert frame["token"].iloc[-1] == "(the other 3 that stay)"
    bars, expected = plots.draws_figure(draws, [0, 1], text, LIGHT).data
    assert list(bars.x) == frame["drawn"].tolist()
    assert list(expected.x) == pytest.approx(frame["expected"].tolist())
    assert list(expected.error_x.array) == pytest.approx((2 * frame["spread by chance"]).tolist())


def test_the_sweep_and_scores_tables() -> None:
    sampling = of()
    sweep = sweep_temperature(torch.from_numpy(sampling.raw.logits), sampling.params, temperatures=(0.0, 1.0))
    frame = tables.sweep_table(sweep, [0, 1], text)
    assert frame["tokens left"].tolist() == [1, 5]
    assert frame["t0 (0)"].tolist() == [1.0, pytest.approx(0.4)]
    frame = tables.scores_table([(3, s) for s in score([Guess("x", (2,))], sampling, 2)], text)
    assert frame.loc[0, ["step", "counted as", "rank", "taken"]].tolist() == [3, "t2", 3, "yes"]


@pytest.mark.parametrize("dark", [False, True])
def test_no_plot_lets_a_token_be_markup(dark: bool) -> None:
    colours = palette(dark)
    first, last = (of(temperature=0.5, top_p=0.8, order=order) for order in ORDERS.values())
    sampling = of(top_k=3)
    draws = draw_many(sampling, [0.1, 0.5])
    sweep = sweep_temperature(torch.from_numpy(sampling.raw.logits), sampling.params)
    figures = [
        *(plots.stage_figure(sampling, n, 4, text, colours) for n in range(len(sampling.stages))),
        plots.cumulative_figure(sampling, [(0.1, 0), (0.5, 1)], text, colours),
        plots.draws_figure(draws, [0, 1], text, colours),
        plots.orders_figure(first, last, ("A", "B"), 6, text, colours),
        plots.sweep_figure(sweep, plots.sweep_leaders(sweep, 3), 1.0, text, colours),
    ]
    for figure in figures:
        spec = figure.to_json()
        assert "<img" not in spec
        assert "\\u003cimg" not in spec
        assert "&lt;img" in spec.replace("\\u0026", "&")


def test_the_stage_plot_strikes_out_what_fell_and_counts_the_tail() -> None:
    sampling = of(top_k=1)
    stage = [s.name for s in sampling.stages].index("top_k")
    figure = plots.stage_figure(sampling, stage, 3, lambda i: f"t{i}", palette(dark=False))
    labels = figure.layout.yaxis.ticktext
    assert labels[1:] == ("<s>t1</s>", "<s>t2</s>", "the other 2 tokens")
    assert list(figure.data[0].x) == pytest.approx([0.4, 0.3, 0.15, 0.15])
    assert list(figure.data[1].x) == pytest.approx([1, 0, 0, 0])


def test_a_tail_that_is_cut_has_nothing_and_no_rest_of_rounding() -> None:
    for seed in range(20):
        probs = torch.rand(300, generator=torch.Generator().manual_seed(seed)).softmax(-1)
        sampling = of(tuple(probs.tolist()), top_k=7)
        stage = len(sampling.stages) - 1
        ids = plots.stage_tokens(sampling, stage, 12)
        assert plots.stage_figure(sampling, stage, 12, text, LIGHT).data[-2].x[-1] == 0
        assert tables.stage_table(sampling, stage, ids, text)["after"].iloc[-1] == 0
        bar = tables.bar_table(sampling, 0.5, sampling.token_id, 12, text)
        assert bar["used probability"].iloc[-1] == 0


def test_the_plan_says_what_each_stage_will_do() -> None:
    plan = tables.plan_table(SamplingParams(temperature=0.0, top_k=40, repetition_penalty=1.1), 300).set_index("stage")
    assert plan["what it will do"].to_dict() == {
        "Model's logits": "one number for each of 300 tokens, from the prompt's last position",
        "Repetition": "divides positive logits of tokens in prompt or output by 1.1, multiplies negative ones",
        "Presence, frequency": "nothing: it changes no logit", "Temperature": "the best token will be taken",
        "Top-k": "nothing: it changes no logit", "Top-p": "nothing: it changes no logit",
        "Min-p": "nothing: it changes no logit", "Best token": "the best one gets everything",
        "Draw": "the coin falls on the bar; where it lands, that token is taken",
    }  # fmt: skip
    assert plan.loc["Top-k", "setting"] == "idle: greedy"


def test_for_plotly_escapes() -> None:
    assert for_plotly("<b>&amp;") == "&lt;b&gt;&amp;amp;"


def test_a_token_that_runs_from_right_to_left_does_not_turn_its_sentence_around() -> None:
    assert quoted("ت") == "“\u2068ت\u2069”"
    assert isolated("abc <D8> 12 ␣") == "abc <D8> 12 ␣"


def test_searching_the_vocabulary() -> None:
    texts = ("a", " Paris", "paris", "Paris", "Parisian", "12", "<s>", " in Paris")
    probs = torch.tensor([0.1, 0.2, 0.1, 0.1, 0.2, 0.1, 0.1, 0.1]).numpy()
    assert search_tokens(texts, "Paris", probs) == [3, 1, 4, 2, 7]
    assert search_tokens(texts, "2", probs) == [2, 5]
    assert search_tokens(texts, "99", probs) == []
    assert search_tokens(texts, "", probs) == []
    assert search_tokens(texts, "<S", probs) == [6]
    assert search_tokens(texts, "␣Paris", probs) == [1, 7], "as the table shows it"


def test_the_stage_plots_twin_has_its_bars_and_adds_up() -> None:
    """SMP-09: columns with names, the drawn token marked, the rest of the vocabulary as a row."""
    sampling = of(top_k=2)
    stage = [s.name for s in sampling.stages].index("top_k")
    frame = tables.stage_table(sampling, stage, [0, 1, 2], text)
    assert frame["token"].tolist()[-1] == "(the other 2 tokens)"
    assert frame["before"].tolist() == pytest.approx([0.4, 0.3, 0.15, 0.15], abs=1e-6)
    assert frame["after"].tolist() == pytest.approx([4 / 7, 3 / 7, 0, 0], abs=1e-6)
    assert frame["fell at"].tolist() == ["", "", "Top-k", ""]
    assert frame["id"][frame["drawn"] == "●"].tolist() == [sampling.token_id]
    assert frame["before"].sum() == pytest.approx(1)
    assert frame["after"].sum() == pytest.approx(1)
    figure = plots.stage_figure(sampling, stage, 3, text, LIGHT)
    assert list(figure.data[1].x) == pytest.approx(frame["after"].tolist())


def test_the_bars_twin_says_from_where_to_where_each_token_reaches() -> None:
    sampling = of()
    frame = tables.bar_table(sampling, 0.55, 1, 2, text)
    assert frame["from"].tolist() == pytest.approx([0, 0.4, 0.7], abs=1e-6)
    assert frame["to"].tolist() == pytest.approx([0.4, 0.7, 1], abs=1e-6)
    assert frame["coin"].tolist() == ["", "0.550000", ""]
    assert frame["used probability"].sum() == pytest.approx(1)
    assert frame["raw probability"].sum() == pytest.approx(1)
    assert tables.bar_table(sampling, 0.95, 3, 2, text)["coin"].tolist() == ["", "", "0.950000"]


def test_the_coin_lies_on_its_token_also_among_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "SEGMENTS", 2)
    figure = plots.cumulative_figure(of(), [(0.92, 3)], text, LIGHT)
    parts = [(bar.base[0], bar.base[0] + bar.x[0], bar.marker.line.width) for bar in figure.data]
    assert [part[2] for part in parts] == [0, 0, 0, 3]
    assert parts[2][:2] == pytest.approx((0.7, 1), abs=1e-6)
    assert parts[3][:2] == pytest.approx((0.85, 0.95), abs=1e-6)
    assert len(plots.cumulative_figure(of(), [(0.1, 0)], text, LIGHT).data) == 3


def test_two_runs_back_to_back_show_what_each_took_even_if_it_is_far_down() -> None:
    first, second = of(top_k=2), of()
    figure = plots.orders_figure(first, second, ("r2", "r1"), 2, text, LIGHT, taken=(4, 0))
    labels = list(figure.layout.yaxis.ticktext)
    assert len(labels) == len(set(labels)) >= 3
    assert labels[-1] == "the other 2 tokens"
    left, right = figure.data
    assert (-sum(left.x), sum(right.x)) == (pytest.approx(1), pytest.approx(1)), "the tail is a bar"
    assert labels[list(left.marker.color).index(LIGHT.step)] == "t4", "forced, and cut by the settings"
    assert labels[list(right.marker.color).index(LIGHT.step)] == "t0"
