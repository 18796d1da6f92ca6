"""What a page says of a recorded run: when what is missing will be there."""

from __future__ import annotations

from miniinfer.ui.saving.saved_runs import EXAMPLE_ID
from miniinfer.ui.sessions.session import Session


def when_live(session: Session) -> str:
    """The example goes live by itself, an opened recording when somebody says so."""
    run = session.timeline.current
    if run is not None and run.info.run_id == EXAMPLE_ID:
        return "as soon as the model is loaded; how far it is stands at the top."
    return "once this recording is live: the page Runs makes it so, under “Take the run in view away”."
