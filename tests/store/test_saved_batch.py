"""The saved form of a batch: the same after a round trip, and a sentence for anything else."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import pytest

from miniinfer.errors import BadInputError
from miniinfer.store import database, opening
from miniinfer.store.database import RunStore, StoreError
from miniinfer.store.saved_batch import SavedBatch, SavedProgress, SavedSet

FORM = SavedSet("One long", None, ({"id": "a", "prompt": "x\n😀", "seed": "18446744073709551615", "stop": None},), {})
OWN = SavedSet("One long", "Own requests", (), {"token_budget": 3, "paging": False})
RUN = SavedProgress("Own requests", "tiny in float32", ({"id": "a", "params": {"seed": 2**64 - 1}},), {}, 7, {"a": 2})
BATCH = SavedBatch("token", FORM, (OWN,), RUN)


@pytest.mark.parametrize("batch", [BATCH, SavedBatch("token", FORM, (), None)])
def test_a_round_trip(batch: SavedBatch) -> None:
    assert SavedBatch.from_json(batch.to_json()) == batch


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (("version",), 2), (("session",), 7), (("form", "rows"), {}), (("form", "rows"), [7]), (("sets",), [{}]),
        (("run", "num_steps"), -1), (("run", "num_steps"), True), (("run", "aborted"), {"a": "2"}),
        (("run", "requests"), []), (("more",), 1), (("form", "own"), "x" * 1000),
    ],
)  # fmt: skip
def test_what_it_could_not_have_written_is_a_sentence(at: tuple[str, ...], value: object) -> None:
    whole = json.loads(BATCH.to_json())
    inner = whole
    for name in at[:-1]:
        inner = inner[name]
    inner[at[-1]] = value
    with pytest.raises(BadInputError, match=r"^The saved batch is damaged"):
        SavedBatch.from_json(json.dumps(whole))


@pytest.mark.parametrize("text", ["", "[]", "null", "[" * 5000, '{"version": 1}', "NaN"])
def test_no_object_is_a_sentence_too(text: str) -> None:
    with pytest.raises(BadInputError, match=r"^The saved batch is damaged"):
        SavedBatch.from_json(text)


def test_the_file_keeps_the_newest_of_each_session_for_a_week(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs.sqlite3")
    store.save([SavedBatch("token", FORM, (), None)])
    store.save([BATCH])
    other = SavedBatch("other", FORM, (), None)
    store.save([other])
    assert (store.load_batch("token"), store.load_batch("other"), store.load_batch("none")) == (BATCH, other, None)
    now = database.time.time()
    with patch.object(database.time, "time", lambda: now + opening.KEPT_BATCH_SECONDS + 60):
        store.save([other])
        assert (store.load_batch("token"), store.load_batch("other")) == (None, other)
    store.close()


def test_a_full_file_takes_no_new_one(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs.sqlite3")
    store.save([BATCH])
    store.max_bytes = 1
    with pytest.raises(StoreError, match="is the limit"):
        store.save([SavedBatch("other", FORM, (), None)])
    store.save([SavedBatch("token", OWN, (), None)])
    found = store.load_batch("token")
    assert found is not None
    assert found.form == OWN
    store.close()
