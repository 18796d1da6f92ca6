"""A measurement in a thread of its own: others go on, the end of the tab ends it, an error is a sentence."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from miniinfer.measure.progress import Progress
from miniinfer.ui.cost.task import CostTask
from miniinfer.ui.sessions.session import Session
from tests.ui.cost.page import endless


def test_others_step_while_a_measurement_runs_and_closing_the_tab_ends_it(new_session: Callable[[], Session]) -> None:
    measuring, other = new_session(), new_session()
    assert other.go_live()
    started = threading.Event()
    task = CostTask(measuring, "curve", "r1", lambda say: endless(started))
    assert started.wait(10)
    other.step_to(3, 60)
    assert other.timeline.cursor == 3
    assert task.state == "running"
    measuring.close()
    task.join(10)
    assert task.state == "cancelled"


def test_an_error_of_a_measurement_is_a_sentence(session: Session) -> None:
    def fails(say: object) -> Iterator[Progress]:
        raise MemoryError
        yield

    task = CostTask(session, "curve", "r1", fails)
    task.join(10)
    assert (task.state, task.result) == ("failed", None)
    assert task.error == "This machine has too little free memory for this measurement."
