"""What tests of the KV cache page share: going there and reading what it shows."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd

from tests.ui.app_test import App

VIEWS = ["Keys and values", "Who reads them", "Blocks", "Bytes", "Predict"]
POSITION_BYTES = 46_080


def kv(app: App, step: int = 3, view: str = VIEWS[0]) -> App:
    """The page with the current run stepped to `step`."""
    app.session.step_to(step, math.inf)
    app.open("kv_cache")
    return show(app, view)


def show(app: App, view: str) -> App:
    app.test.session_state["kv_view"] = view
    return app.run()


def run_of(app: App) -> Any:
    return app.session.timeline.current


def texts(app: App) -> str:
    return "\n".join(t.value for t in app.test.text)


def frame(app: App, place: int = 0) -> pd.DataFrame:
    return app.test.dataframe[place].value


def plots(app: App) -> list[dict[str, Any]]:
    return [json.loads(element.proto.spec) for element in app.test.get("plotly_chart")]
