"""`generate`: continue a prompt, as text with a summary or as one JSON object for each step."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from miniinfer.cli import bootstrap, loading
from miniinfer.cli.arguments import add_device_options, add_model_option, real, valid_text, whole
from miniinfer.cli.output import plural, table, write_json
from miniinfer.config import SamplingParams
from miniinfer.errors import BadInputError, MiniInferError

if TYPE_CHECKING:
    from miniinfer.cli.generation import Generation

SUMMARY = "continue a prompt"
FILES = bootstrap.RUN_FILES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    standard = SamplingParams()
    parser.add_argument("prompt", metavar="PROMPT", type=valid_text)
    add_model_option(parser)
    add_device_options(parser)
    parser.add_argument("--chat", action="store_true", help="send the prompt as a chat message")
    for name, kind, words in (
        ("max-new-tokens", whole, "at most so many tokens"),
        ("temperature", real, "0 is greedy"),
        ("top-k", whole, "keep the k best; 0 keeps all"),
        ("top-p", real, "keep the smallest set of the best that reaches p"),
        ("min-p", real, "drop what is below p times the best"),
        ("repetition-penalty", real, "above 1 makes tokens of prompt and output rarer"),
        ("presence-penalty", real, "taken off the logit of each token of the output"),
        ("frequency-penalty", real, "taken off as often as the token stands in the output"),
        ("seed", whole, "the same seed draws the same tokens"),
    ):
        default = getattr(standard, name.replace("-", "_"))
        parser.add_argument(f"--{name}", metavar="X", type=kind, default=default, help=f"{words} (default {default})")
    parser.add_argument(
        "--stop", metavar="TEXT", action="append", default=[], type=valid_text, help="end before this text"
    )
    parser.add_argument("--stop-id", metavar="N", action="append", default=[], type=whole, help="end at this token id")
    parser.add_argument("--json", action="store_true", help="one JSON object a line: one for each step, one at the end")


def check(options: argparse.Namespace) -> None:
    """Raises BadInputError: a sampling value out of range, an empty raw prompt, a model that is not there."""
    options.params = SamplingParams(
        temperature=options.temperature, top_k=options.top_k, top_p=options.top_p, min_p=options.min_p,
        repetition_penalty=options.repetition_penalty, presence_penalty=options.presence_penalty,
        frequency_penalty=options.frequency_penalty, seed=options.seed, stop=tuple(options.stop),
        stop_ids=tuple(options.stop_id), max_new_tokens=options.max_new_tokens,
    )  # fmt: skip
    if not options.prompt and not options.chat:
        raise BadInputError("The prompt is empty and there is nothing to continue; give some text, or use --chat.")
    loading.check_model(options)


def run(options: argparse.Namespace) -> int:
    from miniinfer.cli.generation import Generation

    model = loading.load(options)
    ids = loading.chat_ids(model, options.prompt) if options.chat else loading.raw_ids(model, options.prompt)
    note = options.params.note_for(model.config.vocab_size)
    if note:
        print(note, file=sys.stderr)
    generation = Generation(model, ids, options.params)
    stopped = False
    try:
        _show(generation, as_json=options.json)
    except KeyboardInterrupt:  # what was made so far is ended in good order, and counts as interrupted
        generation.abort()
        stopped = True
    rest = generation.end()
    if options.json:
        write_json(generation.result())
    else:
        print(rest, flush=True)
    if generation.sequence.error is not None:
        raise MiniInferError(f"{generation.sequence.error} Less extreme penalties or another prompt may help.")
    if not options.json and generation.records:
        where = f"{model.device}, {model.dtype}, {generation.engine.backend.name}"
        print(summary(generation.records, generation.result(), where), file=sys.stderr)
    if stopped:
        raise KeyboardInterrupt
    return 0


def _show(generation: Generation, *, as_json: bool) -> None:
    """Print each step as it comes."""
    for record, text in generation:
        if as_json:
            write_json(record)
        else:
            print(text, end="", flush=True)


def summary(records: list[dict[str, Any]], result: dict[str, Any], where: str) -> str:
    """What the generation took, as a table; all times are measured, the first step of each kind included."""
    prefill = [record["ms"] for record in records if record["phase"] == "prefill"]
    decode = [record["ms"] for record in records if record["phase"] == "decode"]
    rows = [
        ("finish_reason", result["finish_reason"]),
        ("prompt", plural(len(result["prompt_ids"]), "token")),
        ("output", plural(len(result["output_ids"]), "token")),
        ("prefill", f"{sum(prefill):.1f} ms in {plural(len(prefill), 'step')}"),
    ]
    if decode:
        mean = sum(decode) / len(decode)
        rows.append(("decode", f"{mean:.1f} ms a token, {1000 / mean:.1f} tokens/s"))
    rows.append(("KV cache", f"{records[-1]['kv_bytes']:,} bytes for {plural(records[-1]['context_len'], 'position')}"))
    rows.append(("run on", where))
    return table(rows)
