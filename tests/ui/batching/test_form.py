"""The table of requests as people edit it: what is no request is said by name, and the others go on."""

import dataclasses

import pandas as pd
import pytest

from miniinfer.config import SamplingParams
from miniinfer.errors import BadInputError
from miniinfer.trace.batch.presets import PRESETS
from miniinfer.trace.batch.settings import BatchRequest
from miniinfer.ui.batching.ask import BatchAsk
from miniinfer.ui.batching.form import COLUMNS, MAX_REQUESTS, frame_of, requests_of, with_arrivals


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
def test_a_preset_survives_the_table(preset):
    made, refused = requests_of(frame_of(preset.requests))
    assert made == list(preset.requests)
    assert refused == []


def test_a_seed_beyond_what_a_browser_counts_to_survives():
    request = BatchRequest("a", "x", SamplingParams(seed=2**64 - 1))
    assert requests_of(frame_of([request]))[0] == [request]


def test_every_setting_of_a_sampler_survives_the_table():
    params = SamplingParams(
        temperature=0.123, top_k=3, top_p=0.5, min_p=0.05, repetition_penalty=1.25, presence_penalty=-0.5,
        frequency_penalty=0.75, seed=9, stop=("\n\n", "a\\nb", "“", "x\ty"), stop_ids=(2, 17), max_new_tokens=5,
        order=("top_k", "temperature"),
    )  # fmt: skip
    assert {field.name for field in dataclasses.fields(SamplingParams)} <= set(COLUMNS)
    request = BatchRequest("a", "x", params, arrival=3, chat=True)
    assert requests_of(frame_of([request, BatchRequest("b", "y")])) == ([request, BatchRequest("b", "y")], [])


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [("temperature", -1.0, "temperature"), ("seed", "x", "seed"), ("top_p", 0.0, "top_p"),
     ("max_new_tokens", -3, "max_new_tokens"), ("arrival", 2000, "arrival"), ("top_k", 1.5, "top_k"),
     ("stop", [""], "stop"), ("stop_ids", ["-1"], "stop id"), ("order", ["top_k", "top_k"], "order"),
     ("min_p", 1.0, "min_p"), ("frequency_penalty", float("inf"), "frequency_penalty"), ("seed", "9" * 5000, "seed")],
)  # fmt: skip
def test_a_bad_row_is_named_and_the_others_go_on(column, value, said):
    frame = frame_of([BatchRequest("good", "x"), BatchRequest("odd", "y")]).astype(object)
    frame.at[1, column] = value
    made, refused = requests_of(frame)
    assert [r.request_id for r in made] == ["good"]
    assert len(refused) == 1
    assert "'odd'" in refused[0]
    assert said in refused[0]


def test_empty_rows_and_cells_have_their_usual_values():
    frame = pd.DataFrame([{"prompt": "x", "temperature": float("nan"), "seed": None}, {"id": None, "prompt": ""}])
    made, refused = requests_of(frame)
    assert made == [BatchRequest("r1", "x")]
    assert refused == []


def test_more_than_there_is_room_for_is_a_sentence():
    rows = [BatchRequest(f"r{i}", "x") for i in range(MAX_REQUESTS + 1)]
    with pytest.raises(BadInputError, match="room for 16"):
        requests_of(frame_of(rows))


def test_drawn_arrivals_take_the_place_of_the_column():
    frame = with_arrivals(frame_of([BatchRequest("a", "x"), BatchRequest("b", "y")]), (0, 7))
    assert [r.arrival for r in requests_of(frame)[0]] == [0, 7]


@pytest.mark.parametrize("value", [None, 3, [], {"want": "7", "n": -1, "run": 3, "abort": True, "have": 10**9}])
def test_odd_fields_of_an_ask_are_absent(value):
    assert BatchAsk.parse(value) == BatchAsk(0, None, None, 0, None)
