"""The sampling page, run in process: linked to run and cursor, its views, its three buttons, its sentences."""

from __future__ import annotations

import pytest

from tests.ui.app_test import App

VIEWS = ["Stages", "Any token", "Order", "The draw", "What if", "Branches", "Predict"]


def sampling(app: App, step: int = 3) -> App:
    app.ask(want=step, cursor=step, run=app.session.timeline.current.info.run_id)
    return app.open("sampling")


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_is_drawn(app: App, view: str) -> None:
    sampling(app)
    app.test.session_state["sampling_view"] = view
    app.run()
    print([t.value for t in app.test.text])
