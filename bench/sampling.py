"""What the sampling page costs: all stages over the whole vocabulary, recomputed from what is kept of a step."""

from __future__ import annotations

from dataclasses import dataclass

from bench import report, setting
from bench.report import Figure
from miniinfer.config import SamplingParams
from miniinfer.measure.timing import compare_ms
from miniinfer.models.loader import LoadedModel
from miniinfer.trace.sampling.draws import MANY, coins_from, draw_many, sweep_temperature
from miniinfer.trace.sampling.place import Place, place_of
from miniinfer.trace.sampling.sampling import Sampling, sampling_of

MOST_MS = 15.0
SETTINGS = {
    "the app's settings": SamplingParams(),
    "every stage on": SamplingParams(
        temperature=0.9, top_k=200, top_p=0.95, min_p=0.001, repetition_penalty=1.2, presence_penalty=0.2,
        frequency_penalty=0.1,
    ),
    "nothing cut": SamplingParams(temperature=1.5, top_p=1.0),
    "greedy": SamplingParams(temperature=0.0),
}  # fmt: skip


@dataclass(frozen=True)
class Size:
    rounds: int = 60
    context: int = 64


QUICK = Size(rounds=8)


def measure(size: Size, model: LoadedModel | None = None) -> list[Figure]:
    """All figures of this bench."""
    loaded = model or setting.load()
    return setting.in_engine_thread(lambda: stage_times(loaded, size))


def stage_times(model: LoadedModel, size: Size) -> list[Figure]:
    """The stages alone, and with the unembed product that brings back the logits of an older step: the same bar."""
    run = setting.step_until(setting.live_run(model, size.context), size.context + 4)
    step = len(run.steps) - 2  # not the newest one, whose logits are still there

    def look() -> Place:
        place = place_of(run, step)
        assert place is not None
        return place

    def record(place: Place, params: SamplingParams) -> Sampling:
        return sampling_of(place.logits, params, place.prompt_ids, place.output_ids)

    place = look()
    jobs = {name: (lambda params=params: record(place, params)) for name, params in SETTINGS.items()}
    jobs["with the unembed product"] = lambda: record(look(), SamplingParams())
    times = compare_ms(jobs, rounds=size.rounds, warm_up=setting.WARM_UP)
    vocab = f"{model.config.vocab_size:,} tokens"
    figures = [
        Figure(f"all stages, {name}", t.median_ms, "ms", MOST_MS, t.p90_ms, vocab)
        for name, t in times.items()
    ]
    sampling = record(place, SamplingParams())
    coins = coins_from(0, 0, MANY)
    rest = compare_ms(
        {
            f"{MANY:,} draws": lambda: draw_many(sampling, coins),
            "temperature sweep": lambda: sweep_temperature(
                place.logits, SamplingParams(), place.prompt_ids, place.output_ids
            ),
        },
        rounds=max(4, size.rounds // 4), warm_up=1,
    )  # fmt: skip
    return figures + [Figure(name, t.median_ms, "ms", p90=t.p90_ms) for name, t in rest.items()]


if __name__ == "__main__":
    report.main("sampling", __doc__ or "", measure, full=Size(), quick=QUICK)
