"""What the transport is told, on pages without a workspace too."""

from __future__ import annotations

import math

import pytest

from miniinfer.figures.transport import transport_data
from miniinfer.trace.timeline import Timeline
from tests.trace.files.recorded import make_run


@pytest.mark.parametrize("step", [0, 1, 3])
def test_the_step_at_the_cursor_says_what_it_chose(step: int) -> None:
    run = make_run(prompt=4, decoded=3)
    timeline = Timeline()
    timeline.add(run, cursor=step)
    data = transport_data(timeline, {"state": "ready"}, has_driver=False)
    if step == 0:
        assert data["newest"] is None
        return
    meta, token = run.steps[step - 1], run.tokens[run.steps[step - 1].context_len]
    assert data["newest"]["step"] == step == data["cursor"]
    assert data["newest"]["token"][:2] == [meta.token_id, token.text]
    assert data["newest"]["logprob"] == meta.logprob
    assert data["newest"]["logprob"] is None or math.isfinite(data["newest"]["logprob"])
