"""What the tests of the page "Inside a step" share: moving in it, and what it shows."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np
import pandas as pd

from miniinfer.engine.state import StepState
from miniinfer.trace.live_run import LiveRun
from tests.ui.app_test import App

VIEWS = ["Stage by stage", "Watch a tensor", "Residual stream", "Logit lens", "Checks", "Prefill and decode"]
PROMPT = "The capital of France is"
HOSTILE = "<img src=x onerror=alert(1)> **x** :material/home: $a$ `b`"


def inside(app: App, step: int = 1, view: str = "Stage by stage") -> App:
    """The page with the current run stepped to `step`."""
    app.session.step_to(step, math.inf)
    app.open("inside")
    return show(app, view)


def show(app: App, view: str) -> App:
    if app.test.session_state["inside_view"] != view:
        app.test.session_state["inside_view"] = view
        app.run()
    return app


def current(app: App) -> LiveRun:
    run = app.session.timeline.current
    assert isinstance(run, LiveRun)
    return run


def goto(app: App, pc: int, **more: Any) -> App:
    """What the map sends for a click."""
    data = program(app)
    return app.ask("program", pc=pc, step=data["step"], run=data["run"], n=data["n"] + 1, full=True, **more)


def program(app: App) -> dict[str, Any]:
    return json.loads(app._components["program"].json)


def texts(app: App) -> str:
    return "\n".join(t.value for t in app.test.text)


def plots(app: App) -> list[dict[str, Any]]:
    return [message["figure"] for message in app.figures.values()]


def array(value: Any) -> np.ndarray:
    """An array as plotly writes it: plain lists, or base64 of its bytes."""
    if isinstance(value, dict):
        flat = np.frombuffer(base64.b64decode(value["bdata"]), np.dtype(value["dtype"]))
        shape = [int(n) for n in str(value.get("shape", len(flat))).split(",")]
        return flat.reshape(shape)
    return np.array(value, float)


def frame(app: App, *columns: str) -> pd.DataFrame:
    """The first table that has these columns."""
    return next(d.value for d in app.test.dataframe if set(columns) <= set(d.value.columns))


def own_step(app: App, step: int) -> list[dict[str, Any]]:
    """All tensors of that step, stage by stage, by an observer in an engine of its own."""
    from miniinfer.engine.engine import Engine

    run = current(app)
    found: list[dict[str, Any]] = []

    def compute() -> None:
        engine = Engine(run.engine.model, run.engine.config)
        seq = engine.add_request(run.seq.prompt_ids, run.info.params)

        def watch(stage: Any, state: StepState) -> None:
            values = {name: getattr(state, name, None) for name in stage.writes}
            found.append({n: v[0] if isinstance(v, tuple) and v else v for n, v in values.items()})

        for number in range(1, step + 1):
            engine.step(watch if number == step else None, only=seq)

    app.session.look([run], compute)
    return found
