"""What the model file says, what was derived from it, and where its bytes and its loading time went."""

import streamlit as st

from miniinfer.ui.model_report import draw_backend, draw_held_models, draw_model_report
from miniinfer.ui.pages import enter_page

session = enter_page()
with st.container(key="page_body"):
    st.title("What does the model file say?", anchor=False)
    if session.model is None:
        st.text(session.status.text)
        st.text("The facts of the model will stand here as soon as it is loaded.")
    else:
        draw_held_models(session)
        draw_backend(session.model, session.backend)
        draw_model_report(session.model)
