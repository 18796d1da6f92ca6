"""`batch`: many requests of a file together, as a line for each one that is done, and the totals."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from miniinfer.cli import bootstrap, loading
from miniinfer.cli.arguments import add_device_options, add_model_option, valid_text, whole
from miniinfer.cli.output import ProgressLine, complain, table, write_json
from miniinfer.config import POLICIES
from miniinfer.errors import MiniInferError

if TYPE_CHECKING:
    from miniinfer.trace.batch.records import BatchStep, BatchTotals, RequestView
    from miniinfer.trace.batch.run import BatchRun
    from miniinfer.trace.batch.settings import BatchRequest

SUMMARY = "run many requests of a file together"
FILES = bootstrap.RUN_FILES
BAR = 20  # characters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE.jsonl", type=valid_text,
        help="one JSON object a line: id, prompt, and if wanted chat, arrival (steps) and the sampling settings",
    )  # fmt: skip
    parser.add_argument("--policy", metavar="P", default="fcfs", choices=tuple(POLICIES), help=", ".join(POLICIES))
    parser.add_argument("--static", action="store_true", help="static batches, padded to their longest")
    for name, default, words in (
        ("token-budget", 256, "at most so many tokens a step"),
        ("max-seqs", 16, "at most so many requests at once"),
        ("block-size", 16, "positions of a block of the KV cache"),
    ):
        parser.add_argument(f"--{name}", metavar="N", type=whole, default=default, help=f"{words} (default {default})")
    parser.add_argument("--num-blocks", metavar="N", type=whole, help="blocks of the KV cache (default: enough)")
    parser.add_argument("--no-prefix-caching", action="store_true", help="compute equal beginnings again")
    add_model_option(parser)
    add_device_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def check(options: argparse.Namespace) -> None:
    """Raises BadInputError: a setting out of range, a line of the file that is no request, a model that is not
    there."""
    from miniinfer.trace.batch.file import read_requests
    from miniinfer.trace.batch.settings import BatchSettings

    options.settings = BatchSettings(
        batching="static" if options.static else "continuous", policy=options.policy, token_budget=options.token_budget,
        max_seqs=options.max_seqs, block_size=options.block_size, num_blocks=options.num_blocks,
        prefix_caching=not options.no_prefix_caching,
    )  # fmt: skip
    options.requests = read_requests(options.file)
    loading.check_model(options)


def run(options: argparse.Namespace) -> int:
    import torch

    from miniinfer.trace.batch.run import BatchRun
    from miniinfer.trace.batch.view import request_at, totals_at
    from miniinfer.trace.records import TokenInfo

    model = loading.load(options)
    requests, ids = options.requests

    def encode(request: BatchRequest) -> list[int]:
        return (loading.chat_ids if request.chat else loading.raw_ids)(model, request.prompt)

    def describe(token_id: int) -> TokenInfo:
        return TokenInfo(token_id, model.tokenizer.display(token_id), model.token_bytes[token_id])

    with torch.inference_mode():
        batch = BatchRun(model, requests, options.settings, encode=encode, describe=describe)
        for request in requests:
            note = request.params.note_for(model.config.vocab_size)
            if note:
                print(f"Request {request.request_id!r}: {note}", file=sys.stderr)
        shown: dict[str, RequestView] = {}

        def show(view: RequestView) -> None:
            progress.clear()
            shown[view.request_id] = view
            if view.error is not None:
                said = "" if view.request_id in batch.refused else f"Request {view.request_id!r} was ended. "
                complain(MiniInferError(f"{said}{view.error}"))
            if options.json:
                write_json({"id": ids[view.request_id], **result(view)})
            else:
                print(summary(view), flush=True)

        stopped = False
        with ProgressLine() as progress:
            try:
                for view in finished_requests(batch, progress):
                    show(view)
            except KeyboardInterrupt:  # what was made so far is printed, and counts as interrupted
                stopped = True
                for request in requests:
                    if request.request_id not in shown:
                        batch.abort(request.request_id)
                        show(request_at(batch.trace, request.request_id, len(batch.steps)))
    totals = totals_at(batch.trace, len(batch.steps))
    if options.json:
        write_json(sums(totals))
    else:
        print(table([(name, str(value)) for name, value in sums(totals).items()]), file=sys.stderr)
    if stopped:
        raise KeyboardInterrupt
    return 1 if any(view.error is not None for view in shown.values()) else 0


def finished_requests(batch: BatchRun, progress: ProgressLine) -> Iterator[RequestView]:
    """Run the batch to its end; each request as soon as it is done, refused ones first."""
    from miniinfer.trace.batch.view import request_at

    for request_id in batch.refused:
        yield request_at(batch.trace, request_id, 0)
    while batch.step():
        step = batch.steps[-1]
        for row in step.rows:
            if row.finish_reason is not None:
                yield request_at(batch.trace, row.request_id, step.step)
        progress(*how_far(batch, step))


def how_far(batch: BatchRun, step: BatchStep) -> tuple[str, float]:
    """A bar with what the newest step did, and the finished share of the batch, by output tokens."""
    shares = []
    for request in batch.requests:
        seq = batch.engine.sequences.get(request.request_id)
        if seq is not None and not seq.finished:
            most = min(request.params.max_new_tokens, batch.engine.context_length + 1 - seq.num_prompt_tokens)
            shares.append(seq.num_output_tokens / max(1, most))
        else:
            shares.append(float(batch.has_arrived(request.request_id)))
    share = sum(shares) / len(shares)
    bar = "#" * round(BAR * share) + "-" * (BAR - round(BAR * share))
    return f"[{bar}] step {step.step}: {len(step.rows)} in the batch, {len(step.waiting)} waiting", share


def result(view: RequestView) -> dict[str, Any]:
    """A request's line of `--json`, but for its id. error: only if it was refused or ended by the engine."""
    line = {
        "text": view.text,
        "output_ids": [token.token_id for token in view.output],
        "finish_reason": view.finish_reason,
        "ttft_ms": rounded(view.ttft_ms),
        "tpot_ms": rounded(view.tpot_ms),
        "num_preemptions": view.num_preemptions,
    }
    return line if view.error is None else {**line, "error": view.error}


def summary(view: RequestView) -> str:
    """A request on one line, for people."""
    from miniinfer.models.display import visible

    def line(text: str) -> str:
        return "".join(c if c.isprintable() else visible(c) for c in text)

    facts = [str(view.finish_reason), f"{len(view.output)} tokens"]
    if view.ttft_ms is not None:
        facts.append(f"first after {view.ttft_ms:.0f} ms")
    if view.tpot_ms is not None:
        facts.append(f"then {view.tpot_ms:.1f} ms each")
    if view.num_preemptions:
        facts.append(f"preempted {view.num_preemptions} times")
    return f"{line(view.request_id)}: {line(view.text)}  ({', '.join(facts)})"


def sums(totals: BatchTotals) -> dict[str, Any]:
    """The last line of `--json`; all times are measured, the first step included."""
    return {
        "steps": totals.steps, "tok_s": rounded(totals.tok_s), "wasted_slots": totals.wasted_slots,
        "wall_ms": rounded(totals.wall_ms),
    }  # fmt: skip


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
