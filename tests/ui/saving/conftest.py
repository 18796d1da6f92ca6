"""Sessions that save their runs."""

from __future__ import annotations

import pytest

from miniinfer.ui.sessions.session import Session


@pytest.fixture
def visit(host, saved_runs):
    """A session on the host's model that saves its runs; closed at the end."""
    made = []

    def new():
        made.append(Session(host, saved_runs))
        return made[-1]

    yield new
    for session in made:
        session.close()
