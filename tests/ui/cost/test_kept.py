"""What the page Cost has measured is there again after a reload, and says when it was measured."""

from __future__ import annotations

from collections.abc import Callable

from miniinfer.ui.cost.kept import keep, kept_of
from miniinfer.ui.cost.look import RESULTS
from miniinfer.ui.saving.saved_runs import SavedRuns
from tests.measure.helpers import comparison, step_times
from tests.ui.app_test import App, close_tab
from tests.ui.cost.page import cost, show, state, texts


def test_a_reload_finds_it_and_says_when_it_was_measured(app: App, open_app: Callable[..., App]) -> None:
    cost(app)
    keep(app.session, "times", "r1", (step_times("prefill", 5), step_times()))
    keep(app.session, "calibration", "r1", "is kept for the machine, not for a run")
    address = {"s": app.session.keeper.token, "run": "r1", "step": "3"}
    close_tab()
    again = open_app(**address).open_first("cost")
    show(again, "Where time goes")
    assert "Where does a prefill step spend its time?" in texts(again)
    assert "before this page was loaded, and kept with the run" in texts(again)
    again.test.session_state[RESULTS] = {("times", "r1"): (step_times("prefill", 5), step_times())}
    assert "before this page was loaded" not in texts(show(again, "Where time goes")), "measured again, here"


def test_what_is_damaged_or_of_another_run_is_as_if_it_had_not_been_measured(app: App, saved_runs: SavedRuns) -> None:
    app.session.step_to(2, 60)
    keep(app.session, "backends", "r1", comparison())
    assert kept_of(app.session, "r1")["backends"].result == comparison()
    assert kept_of(app.session, "r2") == {}
    keep(app.session, "backends", "r7", comparison())
    assert kept_of(app.session, "r7") == {}, "there is no such run"
    store = saved_runs.store
    assert store is not None
    store._write("UPDATE measurements SET data = '{}'")
    assert kept_of(app.session, "r1") == {}
    assert state(app, RESULTS) is None
