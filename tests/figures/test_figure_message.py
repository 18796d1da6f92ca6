"""The message of a figure: all of the figure, nothing that the browser does not need, JSON whatever the numbers are."""

from __future__ import annotations

import json

import numpy as np
import plotly.graph_objects as go
import plotly.io

from miniinfer.figures.figure_message import figure_message


def test_it_is_the_figure_without_plotlys_template() -> None:
    figure = go.Figure(go.Bar(x=[1, 2], y=[3, 4], name="a"), {"height": 200})
    message = json.loads(figure_message(figure, "bars", "Two bars", picks=True))
    assert (message["name"], message["alt"], message["picks"]) == ("bars", "Two bars", True)
    assert "template" not in message["figure"]["layout"]
    back = plotly.io.from_json(json.dumps(message["figure"]))
    assert (list(back.data[0].x), list(back.data[0].y), back.layout.height) == ([1, 2], [3, 4], 200)
    assert figure.layout.template.data is not None, "the figure itself keeps what it had"


def test_what_is_no_number_stays_readable() -> None:
    """JSON has no NaN: in lists it becomes null, in arrays it travels in their bytes."""
    values = np.array([[1, np.nan], [np.inf, -2]], np.float32)
    figure = go.Figure([go.Heatmap(z=values), go.Scatter(y=[1.5, float("nan"), None])])

    def refuse(word: str) -> None:
        raise AssertionError(word)

    message = json.loads(figure_message(figure, "x", "y"), parse_constant=refuse)
    heat, line = message["figure"]["data"]
    assert (heat["z"]["dtype"], heat["z"]["shape"]) == ("f4", "2, 2")
    assert line["y"] == [1.5, None, None]
    assert message["picks"] is False


def test_a_hostile_name_is_data() -> None:
    message = json.loads(figure_message(go.Figure(), '"}</script>', "\u2028<b>"))
    assert (message["name"], message["alt"]) == ('"}</script>', "\u2028<b>")
