"""Tiny products are done sooner by one thread, above all while other programs run beside the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    if "model" not in request.fixturenames:
        torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
