"""What the workspace is sent: parts on demand, absolute positions, sizes that do not grow with the square."""

import numpy as np

from miniinfer.figures.cost.stages import group_stage_ms
from miniinfer.figures.payload import unpack
from miniinfer.figures.workspace import ExactAsk, HeadAsk, Selection, Surroundings, encode
from miniinfer.measure.groups import STAGES
from tests.trace.files.recorded import CONFIG, make_run


def test_first_message_has_all_a_browser_needs_to_paint():
    run = make_run()
    header, blobs = unpack(encode(run, Selection(cursor=2, details=(2,), head=HeadAsk(1, 2, 0, 99))))
    assert header["last"] == 4
    assert header["cursor"] == 2
    assert [m["step"] for m in header["meta"]] == [1, 2, 3, 4]
    assert header["meta_from"] == 1
    assert [t[0] for t in header["tokens"]] == list(range(9))
    assert blobs["kv"].shape == (8, CONFIG.num_layers, 2)
    np.testing.assert_array_equal(blobs["rows:2"], run.rows_at(5))
    assert header["head"] == {"layer": 1, "head": 2, "from": 0, "to": 8, "cell": 1}
    expected = np.concatenate([run.rows_at(i)[1, 2] for i in range(8)])
    np.testing.assert_array_equal(blobs["head"], expected)
    assert header["details"]["2"]["next"]["token"] == run.steps[1].token_id


def test_a_step_sends_only_what_is_new():
    run = make_run(prompt=100, decoded=20)
    asked = Selection(have_meta=20, have_tokens=120, have_kv=119, details=(21,), head=HeadAsk(0, 0, 119, 120))
    header, blobs = unpack(encode(run, asked))
    assert [m["step"] for m in header["meta"]] == [21]
    assert header["tok_from"] == 120
    assert len(header["tokens"]) == 1
    assert blobs["kv"].shape[0] == 1
    assert blobs["head"].shape == (120,)


def test_bytes_of_a_step_grow_with_the_context_not_with_its_square():
    sizes = []
    for length in (64, 128, 256):
        run = make_run(prompt=length, decoded=2)
        step = Selection(
            have_meta=2, have_tokens=length + 2, have_kv=length + 1, details=(3,),
            head=HeadAsk(0, 0, length + 1, length + 2),
        )
        sizes.append(len(encode(run, step)))
    assert sizes[2] - sizes[1] < 2.2 * (sizes[1] - sizes[0])


def test_prefill_carries_pooled_maps_and_their_cell():
    run = make_run(prompt=50, decoded=1)
    header, blobs = unpack(encode(run, Selection(details=(1,))))
    assert header["details"]["1"]["cell"] == 3
    maps = blobs["maps:1"]
    assert maps.shape == (CONFIG.num_layers, CONFIG.num_heads, 17, 17)
    assert maps[0, 0, 5, 2] == max(run.rows_at(i)[0, 0, 6:9].max() for i in (15, 16, 17))
    assert not np.triu(maps[0, 0], 1).any(), "nothing above the diagonal: the pattern is causal"


def test_an_earlier_position_and_token_probabilities_come_on_demand():
    run = make_run()
    header, blobs = unpack(encode(run, Selection(row=3, probs_from=0)))
    assert header["row"]["pos"] == 3
    np.testing.assert_array_equal(blobs["row"], run.rows_at(3))
    assert np.isnan(blobs["probs"][0])
    assert len(blobs["probs"]) == 9


def test_what_does_not_exist_is_left_out():
    header, blobs = unpack(encode(make_run(), Selection(details=(0, 99), row=8, have_kv=8)))
    assert "details" not in header
    assert "row" not in header
    assert blobs == {}


def test_every_number_of_a_recorded_run_says_so():
    header, _ = unpack(encode(make_run(), Selection(), Surroundings(error="x < y")))
    assert set(header["source"].values()) == {"recorded"}
    assert header["error"] == "x < y"


def test_stage_groups_add_up():
    stages = {name: 1.0 for group in STAGES.values() for name in group} | {"schedule": 1.0, "commit": 1.0}
    grouped = group_stage_ms(stages)
    assert sum(grouped.values()) == sum(stages.values())
    assert grouped["bookkeeping"] == 2.0
    assert grouped["attention"] == 8.0


def test_a_pattern_too_long_to_send_comes_pooled_by_its_largest_weights():
    run = make_run(prompt=700, decoded=1)
    header, blobs = unpack(encode(run, Selection(head=HeadAsk(1, 2, 0, 701))))
    assert header["head"] == {"layer": 1, "head": 2, "from": 0, "to": 701, "cell": 2}
    assert blobs["head"].shape == (351, 351)
    rows = [run.rows_at(i)[1, 2] for i in (602, 603)]
    assert blobs["head"][301, 20] == max(row[k] for row in rows for k in (40, 41))
    assert blobs["head"][301, 301] == max(rows[0][602], *rows[1][602:])
    assert not np.triu(blobs["head"], 1).any()
    header, blobs = unpack(encode(run, Selection(head=HeadAsk(1, 2, 600, 650))))
    assert header["head"] == {"layer": 1, "head": 2, "from": 600, "to": 650, "cell": 1}
    np.testing.assert_array_equal(blobs["head"][:601], run.rows_at(600)[1, 2])


def test_a_recorded_run_has_no_exact_rows_and_says_nothing_of_them():
    header, blobs = unpack(encode(make_run(), Selection(details=(1,), exact=ExactAsk(1, 2))))
    assert "exact" not in header
    assert "exact" not in blobs
