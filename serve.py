"""The app with what stands around it: headers, a guard, /health, the log. `python3 -m miniinfer run` starts this."""

import streamlit as st

from miniinfer.ui.hosting.early import from_the_start
from miniinfer.ui.hosting.serving import middleware, routes, start_log

start_log()
app = st.App("app.py", routes=routes(), middleware=middleware(), lifespan=from_the_start)
