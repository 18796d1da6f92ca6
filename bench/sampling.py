"""What the sampling page costs: all stages over the whole vocabulary, recomputed from a step's kept final-norm vector."""

from __future__ import annotations

from dataclasses import dataclass

from bench import report, setting
from bench.report import Figure
from miniinfer.config import SamplingParams
from miniinfer.measure.timing import compare_ms
from miniinfer.models.loader import LoadedModel
from miniinfer.trace.draws import MANY, coins_from, draw_many, sweep_temperature
from miniinfer.trace.place import Place, place_of
from miniinfer.trace.sampling import Sampling, sampling_of

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
    """The step looked at is not the newest, whose logits are kept: the unembed product is part of each time."""
    run = setting.step_until(setting.live_run(model, size.context), size.context + 4)
    step = len(run.steps) - 2

    def look() -> Place:
        place = place_of(run, step)
        assert place is not None
        return place

    def record(params: SamplingParams) -> Sampling:
        place = look()
        return sampling_of(place.logits, params, place.prompt_ids, place.output_ids)

    jobs = {name: (lambda params=params: record(params)) for name, params in SETTINGS.items()}
    times = compare_ms(jobs, rounds=size.rounds, warm_up=setting.WARM_UP)
    vocab = model.config.vocab_size
    figures = [
        Figure(
            f"all stages, {name}", times[name].median_ms, "ms", MOST_MS, times[name].p90_ms,
            f"{vocab:,} tokens, one unembed product included",
        )
        for name in SETTINGS
    ]  # fmt: skip
    place, sampling = look(), record(SamplingParams())
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
