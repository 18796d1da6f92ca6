"""Guesses about the KV cache, answered by the run."""

from __future__ import annotations

from tests.ui.app_test import App
from tests.ui.kv.page import POSITION_BYTES, frame, kv, run_of, texts


def ask_the_run(app: App, label: str) -> None:
    next(b for b in app.test.button if b.label == label).click()
    app.run()


def test_bytes_of_100_tokens_are_scored_from_the_tensors(app: App) -> None:
    kv(app, view="Predict")
    ask_the_run(app, "Reveal")
    assert "Write down a guess first" in texts(app)
    app.test.number_input(key="kv_guess_number").set_value(13.824)
    ask_the_run(app, "Reveal")
    assert "Your guess: 13,824,000 B. The run: 4,608,000 B." in texts(app)
    assert "without GQA" in texts(app)
    app.test.number_input(key="kv_guess_number").set_value(4.6)
    ask_the_run(app, "Reveal")
    assert "1 of 2 right" in texts(app)
    ask_the_run(app, "Reveal")
    assert frame(app)["right"].tolist() == ["no", "yes"], "the same guess at the same answer is no third round"


def test_which_bar_is_longer_is_answered_at_the_end_of_the_run(app: App) -> None:
    kv(app, view="Predict")
    app.test.radio(key="kv_question").set_value("Which bar is longer, prefill or decode?")
    app.run()
    app.test.radio(key="kv_guess_phase").set_value("decode")
    ask_the_run(app, "Run to the end and reveal")
    run = run_of(app)
    assert run.finish_reason == "length"
    assert f"{31 * POSITION_BYTES:,} B" in texts(app)
    assert "1 of 1 right" in texts(app)
    assert app.session.timeline.cursor == len(run.steps)


def test_the_next_block_and_the_cost_of_a_branch(app: App) -> None:
    kv(app, view="Predict")
    app.test.radio(key="kv_question").set_value("When will the next block be taken?")
    app.run()
    app.test.number_input(key="kv_guess_step_3").set_value(13)
    ask_the_run(app, "Step on and reveal")
    assert "The run: step 13" in texts(app)
    assert [m.kv_allocated_bytes for m in run_of(app).steps[11:13]] == [737_280, 2 * 737_280]
    app.test.radio(key="kv_question").set_value("What does a branch cost?")
    app.run()
    before = list(run_of(app).engine.pool.ref_counts)
    app.test.radio(key="kv_guess_cost").set_value("nothing")
    ask_the_run(app, "Try it and reveal")
    assert "2 of 2 right" in texts(app)
    assert "by copying the shared one" in texts(app)
    assert run_of(app).engine.pool.ref_counts == before
    assert len(app.session.timeline) == 1
