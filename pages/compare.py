"""Two runs of this session side by side."""

import streamlit as st

from miniinfer.ui.pages import enter_page
from miniinfer.ui.two_columns import draw_comparison

session = enter_page()
with st.container(key="page_body"):
    st.subheader("Where do two runs part?")
    session.bring_back_all()
    runs = list(session.timeline)
    if len(runs) < 2:
        st.text(
            "Two runs will stand side by side here. There is one so far: start a new run in the side panel, or go to "
            "the workspace and click a candidate of a step to branch."
        )
    else:
        left, right = st.columns(2)
        names = {r.info.run_id: f"{r.info.run_id} · {r.info.name}" for r in runs}
        a = left.selectbox("A", list(names), format_func=names.__getitem__, index=len(runs) - 2, key="compare_a")
        b = right.selectbox("B", list(names), format_func=names.__getitem__, index=len(runs) - 1, key="compare_b")
        draw_comparison(session, session.timeline.get(a), session.timeline.get(b))
