"""`logits`: what the model says after a prompt, and how single heads look back at it."""

from __future__ import annotations

import argparse
import math

from miniinfer.cli import bootstrap, loading
from miniinfer.cli.arguments import add_device_options, add_model_option, head, id_list, valid_text, whole
from miniinfer.cli.output import table, write_json
from miniinfer.errors import BadInputError

SUMMARY = "show the best next tokens of a prompt, and rows of attention"
FILES = bootstrap.RUN_FILES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", metavar="PROMPT", nargs="?", type=valid_text)
    parser.add_argument("--ids", metavar="1,2,3", type=id_list, help="token ids in place of a prompt")
    add_model_option(parser)
    add_device_options(parser)
    parser.add_argument("--top", metavar="N", type=whole, default=10, help="so many of the best (default 10)")
    parser.add_argument(
        "--attention", metavar="L.H", action="append", default=[], type=head,
        help="also the last token's attention in layer L, head H, both from 0",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one JSON object")


def check(options: argparse.Namespace) -> None:
    """Raises BadInputError: neither or both of PROMPT and --ids, an empty prompt, a number out of range."""
    if (options.prompt is None) == (options.ids is None):
        raise BadInputError("Give either a PROMPT or --ids, and not both.")
    if options.prompt == "":
        raise BadInputError("The prompt is empty, so there is no last token; give some text.")
    if options.top < 1:
        raise BadInputError(f"--top must be 1 or more, not {options.top}.")
    loading.check_model(options)


def run(options: argparse.Namespace) -> int:
    from miniinfer.cli.last_row import last_row
    from miniinfer.models.display import visible

    model = loading.load(options)
    ids = list(options.ids) if options.ids is not None else loading.raw_ids(model, options.prompt)
    row = last_row(model, ids, options.attention)
    top = row.top(options.top)
    if options.json:
        attention = {name: weights.tolist() for name, weights in row.attention.items()}
        write_json({"ids": ids, "top": top, "logsumexp": row.logsumexp, "attention": attention})
        return 0
    best = [("ID", "TOKEN", "LOGIT", "PROBABILITY")]
    for token_id, logit in top:
        shown = visible(model.tokenizer.display(token_id))
        best.append((str(token_id), shown, f"{logit:.4f}", f"{math.exp(logit - row.logsumexp):.2%}"))
    print(table(best, right=(0, 2, 3)))
    print(f"logsumexp {row.logsumexp:.4f}")
    for name, weights in row.attention.items():
        looked_at = [(f"ATTENTION {name}", "ID", "TOKEN")]
        for weight, token_id in zip(weights.tolist(), ids, strict=True):
            looked_at.append((f"{weight:.4f}", str(token_id), visible(model.tokenizer.display(token_id))))
        print(table(looked_at, right=(0, 1)))
    return 0
