import io
import math

import pandas as pd

from miniinfer.figures.tables import (
    candidates_table,
    comparison_table,
    frame_to_csv,
    frame_to_parquet,
    steps_table,
    to_csv,
)
from miniinfer.trace.compare import compare_runs
from tests.trace.files.recorded import make_run


def test_twins_have_one_row_for_each_thing_shown():
    run = make_run()
    assert list(steps_table(run)["step"]) == [1, 2, 3, 4]
    found = run.next_at(4)
    table = candidates_table(found)
    assert len(table) == len(found.tokens) + 1
    assert table["raw_prob"].sum() == 1.0, "the rest of the vocabulary is one row, so nothing is missing"


def test_comparison_table_marks_equal_tokens():
    table = comparison_table(compare_runs(make_run(), make_run(decoded=5)))
    assert list(table["same"]) == ["="] * 4 + [""] * 2


def test_csv_quotes_and_disarms():
    text = to_csv(["a", "b"], [["=1+1", 'x"y'], ["line\nbreak", 2]])
    assert text == 'a,b\r\n\'=1+1,"x""y"\r\n"line\nbreak",2\r\n'
    assert to_csv(["@a", "b"], [["\n=1", "＝1"]]) == "'@a,b\r\n\"'\n=1\",'＝1\r\n"


def test_csv_of_a_table_keeps_every_row():
    frame = steps_table(make_run())
    assert frame_to_csv(frame).count("\r\n") == len(frame) + 1


def test_parquet_of_a_table_has_the_same_cells_and_mixed_columns_as_text():
    frame = candidates_table(make_run().next_at(4))
    pd.testing.assert_frame_equal(pd.read_parquet(io.BytesIO(frame_to_parquet(frame))), frame, check_dtype=False)
    mixed = pd.DataFrame({"a": [1, "none", None, math.nan], 2: [1.5, 2, 3, 4]})
    back = pd.read_parquet(io.BytesIO(frame_to_parquet(mixed)))
    assert list(back.columns) == ["a", "2"]
    assert list(back["a"][:2]) == ["1", "none"]
    assert back["a"][2:].isna().all()
    assert list(back["2"]) == [1.5, 2, 3, 4]
