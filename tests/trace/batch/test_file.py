"""Requests as a file: what is written is read as the same requests."""

from __future__ import annotations

from miniinfer.config import PROCESSOR_NAMES, SamplingParams
from miniinfer.trace.batch.file import parse_requests, requests_to_lines
from miniinfer.trace.batch.presets import PRESETS
from miniinfer.trace.batch.settings import BatchRequest

ODD = (
    BatchRequest("1", 'He said "no"\n\u2028\x85', SamplingParams(stop=("\n", "\\"), seed=2**64 - 1, stop_ids=(2, 7))),
    BatchRequest("😀", "", SamplingParams(order=PROCESSOR_NAMES[::-1], temperature=1e-3, max_new_tokens=0), 1000, True),
)


def test_what_is_written_is_read_as_the_same_requests() -> None:
    for requests in (*(preset.requests for preset in PRESETS), ODD):
        data = requests_to_lines(requests)
        assert len(data.splitlines()) == len(requests)
        assert parse_requests(data, "x.jsonl").requests == requests


def test_usual_settings_are_left_out() -> None:
    assert requests_to_lines([BatchRequest("a", "x")]) == b'{"id": "a", "prompt": "x"}\n'
