"""What tests of the cost page share: going there, pressing its buttons, reading what it shows."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from miniinfer.measure.calibration import machine_of
from miniinfer.measure.calibration_file import save_calibration
from miniinfer.measure.progress import Progress
from miniinfer.trace.live_run import LiveRun
from miniinfer.ui.cost.look import RESULTS, TASK
from miniinfer.ui.cost.task import CostTask
from tests.measure.helpers import calibration
from tests.ui.app_test import App

CPU = torch.device("cpu")


def cost(app: App, view: str = "Where time goes", step: int = 3) -> App:
    app.session.step_to(step, 60)
    app.open("cost")
    return show(app, view)


def show(app: App, view: str) -> App:
    app.test.session_state["cost_view"] = view
    return app.run()


def run_of(app: App) -> LiveRun:
    run = app.session.timeline.current
    assert isinstance(run, LiveRun)
    return run


def state(app: App, key: str) -> Any:
    kept = app.test.session_state
    return kept[key] if key in kept else None  # noqa: SIM401 (AppTest's state has no get)


def press(app: App, key: str) -> App:
    app.test.button(key=key).click()
    return app.run()


def finish(app: App) -> App:
    """Wait for the measurement that runs, and let the page take it in, as its polling fragment does."""
    task: CostTask | None = state(app, TASK)
    if task is None:  # it was so quick that the page has taken it in already
        return app
    task.join(60)
    assert task.state != "running"
    return app.run()


def give(app: App, view: str, result: object) -> None:
    """Put a result where a finished measurement would."""
    results = dict(state(app, RESULTS) or {})
    results[view, run_of(app).info.run_id] = result
    app.test.session_state[RESULTS] = results


def texts(app: App) -> str:
    elements = [*app.test.text, *app.test.caption, *app.test.markdown]
    numbers = [f"{metric.label}: {metric.value}" for metric in app.test.metric]
    return "\n".join([*(str(element.value) for element in elements), *numbers])


def plots(app: App) -> list[dict[str, Any]]:
    return [json.loads(element.proto.spec) for element in app.test.get("plotly_chart")]


def frame(app: App) -> pd.DataFrame:
    return app.test.dataframe[0].value


def endless(started: threading.Event | None = None) -> Iterator[Progress]:
    while True:
        if started:
            started.set()
        yield Progress("on and on", 0.5)
        time.sleep(0.005)


def calibrated(home: Path) -> None:
    save_calibration(calibration(machine=machine_of(CPU)), home)
