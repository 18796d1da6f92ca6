"""`python -m miniinfer.ui.hosting.launch run serve.py`: Streamlit's own command, there a little sooner.

What its import makes lives as long as the process. Python would look through it for garbage while it is made, and once
more, for 70 ms in which no other thread runs, when the first page is about to be served.
"""

import gc

gc.disable()

from streamlit.web.cli import main  # noqa: E402

gc.freeze()
gc.enable()

if __name__ == "__main__":
    main(prog_name="streamlit")
