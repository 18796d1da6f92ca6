"""What the browser says of its window is checked, and is shared by things that stand above each other."""

import plotly.graph_objects as go
import pytest
import streamlit as st

from miniinfer.ui.room import MOST, ROOM, more_rows, room, roomy, take_room, taller


@pytest.fixture(autouse=True)
def _state(monkeypatch):
    monkeypatch.setattr(st, "session_state", {})


@pytest.mark.parametrize("asked", [None, {}, {"room": None}, {"room": True}, {"room": "180"}, {"room": 1.5}, [180]])
def test_what_is_no_height_changes_nothing(asked):
    assert not take_room(asked)
    assert room() == 0
    assert roomy(300) == 300


@pytest.mark.parametrize(("said", "kept"), [(180, 180), (-5, 0), (10**9, MOST)])
def test_a_height_is_kept_within_bounds(said, kept):
    assert take_room({"room": said})
    assert st.session_state[ROOM] == kept


def test_pictures_and_tables_share_it():
    take_room({"room": 180})
    assert (roomy(300), roomy(300, 2)) == (480, 390)
    assert (more_rows(26), more_rows(26, 2)) == (6, 3)
    assert taller(go.Figure(layout={"height": 200}), 2).layout.height == 290
