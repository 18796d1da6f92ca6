"""The benches of a class and of long use at their smallest setting: real websockets, a real server, the pass phrase."""

from __future__ import annotations

import pytest

from bench import classroom, soak
from miniinfer.models.loader import LoadedModel
from tests.bench.test_benches import sane
from tests.ui.asynchronous import in_a_thread


@pytest.mark.browser
def test_classroom(model: LoadedModel) -> None:
    size = classroom.Size(clients=2, steps=3, context=16, every=0.1, stagger=0.1, dtypes=("float32",))
    found = sane([f for f in in_a_thread(classroom.measure, size, model) if f.value])
    assert found["float32: ask to answer, 95th percentile"].most == classroom.MOST_SECONDS
    assert found["float32: clients whose tokens are those of a run alone"].value == 2
    assert "6 steps" in found["float32: clients whose tokens are those of a run alone"].note
    assert found["float32: memory of the server, most"].value > 5e8


def test_soak() -> None:
    found = {figure.name: figure for figure in in_a_thread(soak.measure, soak.Size(loads=3, steps=4))}
    assert found["memory at the end : after warm-up"].value > 0
    assert "3 loads, 12 steps" in found["memory at the end : after warm-up"].note
    assert found["sessions that were closed and are still there"].value == 0
