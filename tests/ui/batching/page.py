"""What tests of the batching page share: going there, stepping as the browser does, reading what it gets."""

from __future__ import annotations

from typing import Any

from miniinfer.ui.batching.host import SessionBatch
from miniinfer.ui.cost.look import TASK
from tests.ui.app_test import App


def batching(app: App, view: str | None = None) -> App:
    app.open("batching")
    return show(app, view) if view else app


def show(app: App, view: str) -> App:
    app.test.session_state["batching_view"] = view
    return app.run()


def batch_of(app: App) -> SessionBatch:
    return app.session.batch


def step(app: App, want: int, **fields: Any) -> App:
    """What the picture asks for: step `want` must exist."""
    have = len(batch_of(app)._entries)
    return app.ask("batching", n=want, run=batch_of(app).run_id, want=want, have=have, abort=None, **fields)


def press(app: App, key: str) -> App:
    app.test.button(key=key).click()
    return app.run()


def finish(app: App) -> App:
    """Wait for the task that runs, and let the page take it in, as its polling fragment does."""
    kept = app.test.session_state
    task = kept[TASK] if TASK in kept else None  # noqa: SIM401 (AppTest's state has no get)
    if task is not None:
        task.join(90)
        assert task.state == "done", task.error
    return app.run()


def texts(app: App) -> str:
    return "\n".join(str(e.value) for e in (*app.test.text, *app.test.caption, *app.test.markdown))
