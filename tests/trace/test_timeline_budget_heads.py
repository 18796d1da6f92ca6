import dataclasses

import numpy as np
import pytest
import torch

from miniinfer.engine.backend import largest_in_cells
from miniinfer.errors import BadInputError
from miniinfer.trace.attention.heads import far_reading_head
from miniinfer.trace.budget import TraceBudget
from miniinfer.trace.pooling import PooledPrompt, pool_rows, to_u8
from miniinfer.trace.records import SequenceRecord, StepRecord
from miniinfer.trace.timeline import Timeline
from tests.trace.files.recorded import make_run


def test_a_run_keeps_its_cursor_while_another_is_looked_at():
    line = Timeline()
    line.add(make_run(run_id="a"), cursor=2)
    line.add(make_run(run_id="b"))
    assert line.cursor == 0
    line.open("a")
    assert line.cursor == 2
    line.cursor = 99
    assert line.cursor == 4
    line.cursor = -1
    assert line.cursor == 0


def test_removing_the_current_run_opens_the_newest_other():
    line = Timeline()
    for name in "abc":
        line.add(make_run(run_id=name))
    line.remove("c")
    assert line.current is not None
    assert line.current.info.run_id == "b"
    with pytest.raises(BadInputError, match="run menu"):
        line.get("c")
    assert line.new_id() != line.new_id()


def record(step: int, kilobytes: int) -> StepRecord:
    q = np.zeros((1, 1, 1, kilobytes * 256), np.float32)
    small = np.zeros((1, 1), np.float32)
    part = SequenceRecord("s", step - 1, 1, step, 0, 0.0, 0.0, False, small, small[:, :, None], q)
    return StepRecord(step, "decode", 1.0, {}, (part,), 0, 0, 0, 0, 0)


def test_the_oldest_queries_go_first_and_the_record_says_so():
    budget = TraceBudget(limit_bytes=10 * 1024)
    records = [record(i + 1, 4) for i in range(4)]
    for item in records:
        budget.add(item)
    assert [r.sequences[0].q is None for r in records] == [True, True, False, False]
    assert budget.used_bytes == sum(r.nbytes for r in records) <= budget.limit_bytes


def test_shared_records_count_once_and_live_until_the_last_holder_lets_go():
    budget = TraceBudget()
    shared, own = record(1, 4), record(2, 4)
    budget.add(shared)
    budget.share([shared])
    budget.add(own)
    assert budget.used_bytes == shared.nbytes + own.nbytes
    budget.drop([shared, own])
    assert budget.used_bytes == shared.nbytes
    budget.drop([shared])
    assert budget.used_bytes == 0


def test_the_arrays_of_an_edited_step_count_once_and_their_queries_go_together():
    budget = TraceBudget(limit_bytes=10 * 1024)
    trunk = record(1, 4)
    edited = dataclasses.replace(trunk, sequences=(dataclasses.replace(trunk.sequences[0], token_id=7),))
    budget.add(trunk)
    budget.share([edited])
    assert budget.used_bytes == trunk.nbytes
    budget.add(record(2, 4))
    assert trunk.sequences[0].q is not None, "8 kB fit into 10 kB"
    budget.add(record(3, 4))
    assert trunk.sequences[0].q is None
    assert edited.sequences[0].q is None
    assert budget.used_bytes <= budget.limit_bytes
    budget.drop([trunk])
    budget.drop([edited])
    assert budget.used_bytes == 2 * record(2, 4).nbytes


def test_the_first_head_shown_reads_something_far_back():
    rows = np.zeros((2, 3, 6), np.uint8)
    rows[:, :, 0] = 255  # the first token soaks up attention
    rows[0, 0, 5] = 250  # itself
    rows[0, 1, 4] = 249  # the token before
    rows[1, 2, 3] = 120
    assert far_reading_head(rows) == (1, 2)
    assert far_reading_head(rows[:, :, :1]) == (0, 0), "one position: every head is alike"


def test_pooling_a_prompt_in_chunks_equals_pooling_its_rows():
    rng = np.random.default_rng(3)
    length, cell = 60, 3
    weights = [rng.random((2, 2, i + 1), np.float32) for i in range(length)]
    pooled = PooledPrompt(2, 2, length)
    assert pooled.cell == cell
    for start, stop in ((0, 7), (7, 8), (8, 60)):
        for layer in range(2):
            rows = torch.zeros(2, stop - start, stop)
            for i in range(start, stop):
                rows[:, i - start, : i + 1] = torch.from_numpy(weights[i][layer])
            pooled.add(layer, start, largest_in_cells(rows, start, cell).numpy())
    expected = pool_rows([to_u8(w) for w in weights], length)
    np.testing.assert_array_equal(pooled.result().maps, expected.maps)
