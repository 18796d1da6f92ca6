"""`bench`: what this model costs on this machine: prefill, decode, their stages, and the machine's own limits."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

from miniinfer.cli import bootstrap, loading
from miniinfer.cli.arguments import add_device_options, add_model_option
from miniinfer.cli.output import ProgressLine, complain, write_json

if TYPE_CHECKING:
    from miniinfer.engine.backend import Backend
    from miniinfer.engine.weights import Weights
    from miniinfer.measure.progress import Measurement

SUMMARY = "measure prefill and decode, stage by stage, against this machine's memory and arithmetic"
FILES = bootstrap.RUN_FILES
TEXT = " A long road leads from the harbour to the hills, and on a clear day the whole island can be seen from there."

T = TypeVar("T")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_option(parser)
    add_device_options(parser)
    parser.add_argument("--quick", action="store_true", help="fewer lengths and rounds: to see that it works")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def check(options: argparse.Namespace) -> None:
    """Raises BadInputError for a model that is not there."""
    loading.check_model(options)


def run(options: argparse.Namespace) -> int:
    from miniinfer.cli.bench_table import bench_table
    from miniinfer.config import SamplingParams
    from miniinfer.errors import MiniInferError
    from miniinfer.measure.bench import FULL, QUICK, measure_bench
    from miniinfer.measure.calibration_file import save_calibration
    from miniinfer.measure.summary import by_stage
    from miniinfer.models.paths import data_home

    model = loading.load(options)
    ids = model.tokenizer.encode(TEXT, parse_special=False)
    started = time.perf_counter()
    size, backends = QUICK if options.quick else FULL, _backends(options, model.weights)
    found = _in_engine_thread(measure_bench(model, ids, SamplingParams(), size, backends))
    seconds = time.perf_counter() - started
    if found.calibration is not None:
        try:
            save_calibration(found.calibration, data_home())
        except MiniInferError as error:  # the figures are there all the same
            complain(error)
    if options.json:
        steps = {
            phase: [asdict(s) | {"gap_ms": s.gap_ms, "by_stage": [asdict(x) for x in by_stage(s)]} for s in steps]
            for phase, steps in (("prefill", found.prefill), ("decode", found.decode))
        }
        write_json(asdict(found) | {"model": model.name, "quick": options.quick, "seconds": seconds} | steps)
    else:
        print(bench_table(found, model.name, seconds))
    return 0


def _backends(options: argparse.Namespace, weights: Weights) -> list[Backend]:
    """Torch, and the backend that was asked for; auto: the compiled core if it is built and neither turned off nor
    unfit for this model."""
    from miniinfer.engine.backend import TORCH
    from miniinfer.native.choose import choose_backend

    other = choose_backend("auto" if options.backend == "native" else options.backend, weights)
    return [TORCH] if other is TORCH else [TORCH, other]


def _in_engine_thread(measurement: Measurement[T]) -> T:
    """As the app runs all model work: in one long-lived thread, with the thread settings that were found best."""
    from miniinfer.engine.worker import EngineWorker
    from miniinfer.measure.progress import run_through

    worker = EngineWorker()
    try:
        with ProgressLine() as line:
            return worker.call(lambda: run_through(measurement, lambda p: line(p.text, p.share)))
    finally:
        worker.close()
