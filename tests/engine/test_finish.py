"""Stop strings are found in bytes, across the borders of tokens and characters."""

from __future__ import annotations

import pytest

from miniinfer.config import SamplingParams
from miniinfer.engine.finish import cut_at_stop, finish_reason, newest_token_completes_stop
from tests.engine.helpers import PROMPT, run_all, shared_tiny, solo, tiny_engine

BYTES = (b"He", b"llo", b" wor", b"ld", b"\xf0\x9f", b"\x99\x82", b"", b"l")


@pytest.mark.parametrize(
    ("ids", "stop", "completes"),
    [
        ([0, 1], "lo", True),
        ([0, 1], "Hello", True),
        ([0, 1, 2], "o w", True),
        ([0, 1, 2, 3], "lo world", True),
        ([0, 1, 2, 3], "Hello", False),  # was complete two tokens ago
        ([0, 1, 2], "world", False),
        ([4], "\U0001f642", False),
        ([4, 5], "\U0001f642", True),
        ([0, 1, 6], "lo", False),  # a token without bytes completes nothing
        ([7, 7, 7], "lll", True),
        ([7, 7], "lll", False),
    ],
)
def test_where_a_stop_string_ends(ids: list[int], stop: str, completes: bool) -> None:
    assert newest_token_completes_stop(ids, (stop,), BYTES) is completes
    assert newest_token_completes_stop(ids, ("nothing like it", stop), BYTES) is completes


def test_every_stop_string_is_found_at_the_token_that_completes_it() -> None:
    ids = [0, 1, 2, 3, 4, 5, 0, 1]
    text = b"".join(BYTES[i] for i in ids)
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            try:
                stop = text[start:end].decode()
            except UnicodeDecodeError:
                continue
            spelled = stop.encode()
            for n in range(1, len(ids) + 1):
                now = b"".join(BYTES[i] for i in ids[:n])
                before = b"".join(BYTES[i] for i in ids[: n - 1])
                expected = any(
                    now[at : at + len(spelled)] == spelled and at + len(spelled) > len(before)
                    for at in range(len(now))
                )
                assert newest_token_completes_stop(ids[:n], (stop,), BYTES) is expected


def test_the_text_ends_before_its_first_stop_string() -> None:
    assert cut_at_stop(b"Hello world", ("world", "lo")) == b"Hel"
    assert cut_at_stop(b"Hello", ()) == b"Hello"


def test_order_of_the_reasons() -> None:
    params = SamplingParams(max_new_tokens=2, stop=("lo",), stop_ids=(3,))
    assert finish_reason([0, 1], 9, params, {5}, BYTES, 4) == "stop"
    assert finish_reason([3], 3, params, {5}, BYTES, 4) == "stop"
    assert finish_reason([5], 3, params, {5}, BYTES, 4) == "stop"
    assert finish_reason([0, 2], 9, params, {5}, BYTES, 4) == "length"
    assert finish_reason([0], 5, params, {5}, BYTES, 4) == "context"
    assert finish_reason([0], 4, params, {5}, BYTES, 4) is None
    assert finish_reason([], 4, SamplingParams(max_new_tokens=0), {5}, BYTES, 4) == "length"


def test_the_engine_stops_at_a_string_spread_over_two_tokens() -> None:
    output_ids = solo(PROMPT)[0]
    spelled = b"".join(shared_tiny().token_bytes[i] for i in output_ids)
    across = spelled[3:5].decode()  # the end of the second token and the start of the third
    assert across.encode() not in spelled[:4]
    engine = tiny_engine()
    seq = engine.add_request(PROMPT, SamplingParams(temperature=0, max_new_tokens=6, stop=(across,)))
    run_all(engine)
    assert (seq.output_ids, seq.finish_reason) == (output_ids[:3], "stop")
