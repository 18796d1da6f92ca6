"""All saved runs: find one, open it, name it, copy it, delete it."""

from miniinfer.ui.pages import enter_page
from miniinfer.ui.runs.page import draw_runs

draw_runs(enter_page())
