"""What the tests of the attention page share: opening it, moving the cursor, and what it shows."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np
import pandas as pd
import plotly.io

from miniinfer.trace.live_run import LiveRun
from tests.ui.app_test import App

VIEWS = ("Scores to weights", "Value mix", "RoPE", "All heads", "Knock out")
HOSTILE = "<img src=x onerror=alert(1)> **x** :material/home: $a$ `b`"
LONG = "The river runs down from the hills and the rain falls on the town. " * 6


def attention(app: App, view: str = "Scores to weights", step: int = 3, **state: Any) -> App:
    """The page with the current run stepped to `step`; state: of its widgets, without their prefix."""
    app.session.step_to(step, math.inf)
    app.open("attention")
    return show(app, view, **state)


def show(app: App, view: str, **state: Any) -> App:
    app.test.session_state["attention_view"] = view
    for name, value in state.items():
        app.test.session_state[f"attention_{name}"] = value
    return app.run()


def move(app: App, **ask: Any) -> App:
    """The transport asks, and then the whole page is drawn, for a fragment's run shows its own elements alone."""
    return app.ask("transport", **ask).run()


def current(app: App) -> LiveRun:
    run = app.session.timeline.current
    assert isinstance(run, LiveRun)
    return run


def texts(app: App) -> str:
    return "\n".join(t.value for t in app.test.text)


def frames(app: App) -> list[pd.DataFrame]:
    return [f.value for f in app.test.dataframe]


def numbers(values: Any) -> np.ndarray:
    """An array of a figure, which travels as base64."""
    if isinstance(values, dict):
        flat = np.frombuffer(base64.b64decode(values["bdata"]), np.dtype(values["dtype"]))
        return flat.reshape([int(n) for n in str(values["shape"]).split(",")]) if "shape" in values else flat
    return np.array(values, np.float64)


def plots(app: App) -> list[Any]:
    return [plotly.io.from_json(json.dumps(message["figure"])) for message in app.figures.values()]
