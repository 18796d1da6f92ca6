"""Where a tab enters: its session, or one sentence that says why there is none."""

from __future__ import annotations

import streamlit as st

from miniinfer.errors import BadInputError
from miniinfer.ui.hosting.hosting import why_closed
from miniinfer.ui.hosting.stay_here import stay_here
from miniinfer.ui.sessions.session import Session, get_session


def open_session() -> Session:
    """This tab's session. If it cannot have one, the page says why and ends here."""
    stay_here()  # serve.py has said so before the first visitor; a plain `streamlit run app.py` runs nothing sooner
    try:
        if (closed := why_closed()) is None:
            return get_session()
    except BadInputError as error:
        closed = str(error)
    st.title("MiniInfer", anchor=False)
    st.text(closed)
    st.stop()
