"""What a look into a step holds is given back before anything else needs it, also in the middle of a replay."""

from __future__ import annotations

import math

import pytest

from miniinfer.errors import BadInputError
from miniinfer.trace.inside.stage_rows import read_stage_rows
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.replay import rows_of
from tests.ui.app_test import App
from tests.ui.inside.page import VIEWS, current, frame, goto, inside, program, show


def test_the_run_is_unharmed_and_leaving_gives_the_fork_back(app: App) -> None:
    run = current(app)
    app.session.step_to(3, math.inf)
    ids, used, sequences = list(run.seq.token_ids), run.engine.pool.num_used, list(run.engine.sequences)
    inside(app, 3)
    goto(app, 200)
    assert app.session.inside.holds
    for view in VIEWS:
        show(app, view)
    assert list(run.seq.token_ids) == ids
    assert len(app.session.timeline) == 1
    app.open("model")
    assert not app.session.inside.holds
    assert run.engine.pool.num_used == used
    assert list(run.engine.sequences) == sequences
    run.engine.check()


def test_the_next_step_can_be_entered_and_then_made_real(app: App) -> None:
    inside(app, 2)
    run = current(app)
    control = next(g for g in app.test.get("button_group") if str(g.proto.id).endswith("inside_step_r1_2_2"))
    assert [o.content for o in control.proto.options] == ["Step 2", "Step 3, not made yet"]
    app.test.session_state["inside_step_r1_2_2"] = 3
    app.run()
    goto(app, 343)
    seen = frame(app, "shape or content")
    assert seen["field"].tolist()[-2:] == ["coins", "token_ids"]
    token_id = int(seen["max"].iloc[-1])
    assert len(run.steps) == 2
    app.test.button(key="inside_commit").click()
    app.run()
    assert len(run.steps) == 3
    assert run.seq.token_ids[-1] == token_id
    assert app.session.timeline.cursor == 3


def test_a_run_without_room_for_the_fork_says_so(app: App) -> None:
    run = current(app)
    pool = run.engine.pool
    limit = pool.max_blocks
    taken = [pool.alloc() for _ in range(pool.num_free)]
    pool.max_blocks = pool.num_blocks
    app.open("inside")
    assert "KV cache" in "\n".join(app.texts("inside_error"))
    pool.max_blocks = limit
    pool.release(taken)
    app.run()
    assert program(app)["pc"] == 3


def test_a_replay_makes_room_for_a_step_of_the_run(app: App) -> None:
    session = app.session
    session.step_to(3, math.inf)
    run = session.timeline.current
    assert isinstance(run, LiveRun)
    work = read_stage_rows(run, rows_of(run, 1), 2)
    with session.inside.replaying(run, work) as in_engine:
        assert 0 < in_engine(lambda: next(work)) < 1
        assert session.inside.holds
        session.step_to(4, math.inf)
        assert not session.inside.holds
        assert list(run.engine.sequences) == [run.info.run_id]
        with pytest.raises(BadInputError, match="choose the view again"):
            in_engine(lambda: next(work))
    again = read_stage_rows(run, rows_of(run, 1), 2)
    with session.inside.replaying(run, again) as in_engine:
        in_engine(lambda: next(again))
    assert not session.inside.holds, "left before its end, as when the user chooses something else"
    session.look([run], run.engine.check)
    assert list(run.engine.sequences) == [run.info.run_id]
