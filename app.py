"""MiniInfer: step a real language model through a prompt, token by token. Start with `python3 -m miniinfer run`."""

import streamlit as st

from miniinfer.ui.address import read_address, sync_address
from miniinfer.ui.frame import draw_frame
from miniinfer.ui.hosting.door import open_session
from miniinfer.ui.pages import all_pages
from miniinfer.ui.side_panel import draw_side_panel

st.set_page_config(page_title="MiniInfer", page_icon="miniinfer/ui/icon.png", layout="wide")

pages = all_pages()
page = st.navigation(pages, position="hidden")
session = open_session()
read_address(session)
draw_frame(session, page, pages, has_driver=page.title == "Workspace")
draw_side_panel(session)
sync_address(session)
if page.title != "Inside a step":
    session.inside.leave()
st.session_state["framed"] = True
page.run()
session.request_model()  # last, so that the page is drawn before torch is imported
