"""Reading and moving the sampling page in a test."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd

from tests.ui.app_test import App


def sampling(app: App, step: int = 3, view: str = "Stages") -> App:
    """The page with the current run stepped to `step`."""
    app.session.step_to(step, math.inf)
    app.open("sampling")
    return show(app, view)


def show(app: App, view: str) -> App:
    app.test.session_state["sampling_view"] = view
    return app.run()


def current(app: App) -> Any:
    run = app.session.timeline.current
    assert run is not None
    return run


def texts(app: App) -> str:
    return "\n".join(t.value for t in app.test.text)


def field(app: App, name: str) -> Any:
    kind = app.test.text_input if name == "seed" else app.test.number_input
    return kind(key=f"sampling_{name}_value")


def frame(app: App, place: int = 0) -> pd.DataFrame:
    return app.test.dataframe[place].value


def plots(app: App) -> list[dict[str, Any]]:
    return [json.loads(element.proto.spec) for element in app.test.get("plotly_chart")]
