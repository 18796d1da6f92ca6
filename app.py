"""MiniInfer: step a real language model through a prompt, token by token. Start with `python3 -m miniinfer run`."""

import streamlit as st

from miniinfer.ui.frame import draw_frame, read_address, sync_address
from miniinfer.ui.session import get_session
from miniinfer.ui.side_panel import draw_side_panel

st.set_page_config(page_title="MiniInfer", page_icon="miniinfer/ui/icon.png", layout="wide")

PAGES = [
    st.Page("miniinfer/ui/pages/workspace.py", title="Workspace", icon=":material/view_quilt:", default=True),
    st.Page("miniinfer/ui/pages/compare.py", title="Compare", icon=":material/compare_arrows:"),
    st.Page("miniinfer/ui/pages/model.py", title="Model", icon=":material/memory:"),
]
page = st.navigation(PAGES, position="hidden")
session = get_session()
read_address(session)
draw_frame(session, page, PAGES, has_driver=page.title == "Workspace")
draw_side_panel(session)
sync_address(session)
page.run()
session.request_model()  # last, so that the page is drawn before torch is imported
