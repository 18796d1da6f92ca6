"""An ask comes from a browser, so it may be anything: parsing never fails, and what it lets through is in range."""

import json
from dataclasses import astuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniinfer.figures.payload import unpack
from miniinfer.figures.workspace import ExactAsk, HeadAsk, Selection
from miniinfer.ui.ask import MAX_DETAILS, Ask
from miniinfer.ui.sessions.model_host import ModelHost
from miniinfer.ui.sessions.session import Session

FIELDS = ("n", "run", "want", "cursor", "have", "details", "head", "exact", "row", "probs", "force", "open")
leaves = (
    st.none() | st.booleans() | st.integers() | st.integers(0, 40) | st.floats() | st.text(max_size=80)
    | st.sampled_from(["example", "r1", "__proto__", "\ud800", "<b>"])
)  # fmt: skip
anything = st.recursive(leaves, lambda x: st.lists(x) | st.dictionaries(st.text(max_size=5), x), max_leaves=8)
asks = st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, anything)) | st.fixed_dictionaries(
    {"run": st.just("example")},
    optional={
        "n": leaves, "want": leaves, "cursor": leaves, "row": leaves, "probs": leaves,
        "have": st.dictionaries(st.sampled_from(["meta", "tok", "kv"]), leaves),
        "details": st.lists(leaves), "head": st.lists(st.integers(0, 40) | leaves, min_size=4, max_size=4),
        "exact": st.lists(st.integers(0, 40) | leaves, min_size=3, max_size=3),
        "force": st.dictionaries(st.sampled_from(["step", "token"]), leaves),
    },
)  # fmt: skip


@given(anything | asks)
@settings(max_examples=300, deadline=None)
def test_parsing_never_fails_and_everything_let_through_is_in_range(value):
    ask = Ask.parse(value)
    found = ask.selection
    wholes = [
        ask.number, ask.want, ask.cursor, *(ask.force or ()), found.ask, found.have_meta, found.have_tokens,
        found.have_kv, *found.details, found.row, found.probs_from,
        *(astuple(found.head) if found.head else ()), *(astuple(found.exact) if found.exact else ()),
    ]  # fmt: skip
    assert all(w is None or (type(w) is int and 0 <= w < 2**31) for w in wholes)
    assert len(found.details) <= MAX_DETAILS
    for text in (ask.run_id, ask.open):
        assert text is None or (isinstance(text, str) and 0 < len(text) <= 64)
    assert Ask.parse(value) == ask, "parsing changes nothing"


@pytest.fixture(scope="module")
def untouched() -> Session:
    """A session that has only the recorded example; no model is there."""
    return Session(ModelHost())


@given(value=anything | asks)
@settings(max_examples=150, deadline=None)
def test_no_ask_breaks_a_session_or_its_message(untouched, value):
    ask = Ask.parse(value)
    untouched.handle(ask)
    header, _ = unpack(untouched.message(ask.selection))
    assert header["ask"] == ask.number
    assert header["error"] is None or header["error"].endswith(".")
    assert header["run"]["id"] == "example"
    assert 0 <= header["cursor"] <= header["last"] == 32


def test_a_whole_ask_is_read_as_it_was_meant():
    value = json.loads(
        '{"n": 17, "run": "r1", "want": 9, "cursor": 9, "have": {"meta": 8, "tok": 13, "kv": 12}, "details": [9, 8],'
        ' "head": [13, 8, 12, 13], "exact": [13, 8, null], "row": 3, "probs": 1, "force": {"step": 4, "token": 0},'
        ' "open": "r2"}'
    )
    assert Ask.parse(value) == Ask(
        17, "r1", 9, 9, (4, 0), "r2",
        Selection(17, 0, 8, 13, 12, (9, 8), HeadAsk(13, 8, 12, 13), ExactAsk(13, 8), 3, 1),
    )


@pytest.mark.parametrize(
    "text",
    [
        "null", "[]", '"x"', "17", "true", "{}", '{"n": -1, "want": 1e3, "cursor": true}', '{"run": ""}',
        '{"head": [1, 2]}', '{"head": [1, "x", 2, 3]}', '{"exact": [1, 2, "x"]}', '{"exact": [null, 2, 3]}',
        '{"head": {"0": 1}}', '{"force": [1, 2]}',
        '{"force": {"step": 1}}', '{"want": NaN, "cursor": Infinity, "row": -Infinity}',
        '{"want": 2147483648, "row": 1' + "0" * 400 + "}", '{"have": [1, 2, 3], "details": "123", "probs": "1"}',
    ],
)  # fmt: skip
def test_what_is_odd_counts_as_absent(text):
    assert Ask.parse(json.loads(text)) == Ask()


def test_a_huge_ask_is_cut_to_its_bounds():
    value = {"details": list(range(10**6)), "run": "r" * 10**6, "head": [0] * 10**6, "x": {"y": "z" * 10**6}}
    assert Ask.parse(value) == Ask(selection=Selection(details=tuple(range(MAX_DETAILS))))
