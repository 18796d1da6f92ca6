"""Large things that refer to each other go within seconds in an app that is used, and an idle one is left alone."""

import gc
import time
import weakref

from miniinfer.ui.sessions.garbage import collect_if_used


class Large:
    def __init__(self):
        self.me = self


def test_garbage_goes_once_a_session_was_used(session):
    sessions = session.host.sessions
    gc.disable()  # Python's own look, which goes by the number of objects, must not come first
    try:
        gone = weakref.ref(Large())
        looked = time.monotonic()
        session.last_used = looked - 1
        assert collect_if_used(sessions, looked) == looked
        assert gone() is not None, "nobody has used anything since"
        session.in_engine(lambda: None)
        assert collect_if_used(sessions, looked) > looked
        assert gone() is None
    finally:
        gc.enable()
