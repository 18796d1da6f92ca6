"""What `run` tells the app of those who can reach it, and the pass phrase."""

from dataclasses import replace

import pytest

from miniinfer.errors import BadInputError
from miniinfer.hosting import VARIABLE, Hosting, guarded
from miniinfer.passphrase import make_verifier, matches


def test_it_arrives_as_it_was_sent():
    sent = replace(guarded(make_verifier("long enough")), log_text=True, dtype="packed")
    assert Hosting.of({VARIABLE: sent.to_json()}) == sent
    assert (sent.guarded, sent.local_paths, sent.own_runs_only) == (True, False, True)
    assert Hosting.of({}) == Hosting()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"guarded": true}', '{"other": 1}'])
def test_what_cannot_be_read_opens_nothing(text):
    with pytest.raises(BadInputError, match=VARIABLE):
        Hosting.of({VARIABLE: text})


def test_only_the_phrase_itself_matches_and_nothing_tells_it():
    verifier = make_verifier("grün und lang")
    assert matches("grün und lang", verifier)
    for other in ("", "grün und lan", "grün und langg", "x" * 10**6, "\ud800"):
        assert not matches(other, verifier)
    assert "lang" not in verifier
    assert matches("gru\u0308n und lang", verifier), "another keyboard's spelling of the same letter"
    assert not matches("x" * 257, make_verifier("x" * 256))
    assert make_verifier("grün und lang") != verifier, "salted"


@pytest.mark.parametrize("phrase", ["", "short", "x" * 257])
def test_a_phrase_that_keeps_nobody_out_is_refused(phrase):
    with pytest.raises(BadInputError, match="from 8 to 256 characters"):
        make_verifier(phrase)
