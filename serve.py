"""The app as it is served: app.py, with every answer under the headers of miniinfer/ui/headers.py."""

import streamlit as st
from starlette.middleware import Middleware

from miniinfer.ui.headers import SecurityHeaders

app = st.App("app.py", middleware=[Middleware(SecurityHeaders)])
