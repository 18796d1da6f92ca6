"""How probable the model found each token of a text, from kept final-norm vectors. Runs in the engine's thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from miniinfer.engine.lookup import logits_of
from miniinfer.trace.records import FloatArray, SequenceRecord

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine

ROWS = 64  # of logits at a time: 12.6 MB


def token_probs(engine: Engine, parts: Iterable[SequenceRecord], ids: Sequence[int], start: int = 0) -> FloatArray:
    """[len(ids) - start] softmax of the raw logits at the token that followed; NaN where nothing came before.

    parts: of all steps of the text; those that end before `start` are passed over.
    """
    probs = np.full(len(ids), np.nan, np.float32)
    for part in parts:
        if part.context_len < start:
            continue
        following = torch.tensor(ids[part.start + 1 : part.context_len + 1])
        for low in range(0, len(following), ROWS):
            rows = torch.from_numpy(np.array(part.final_norm[low : low + ROWS]))[: len(following) - low]
            found = logits_of(engine, rows).float().softmax(-1).cpu()
            chosen = found.gather(1, following[low : low + ROWS, None])[:, 0]
            first = part.start + 1 + low
            probs[first : first + len(chosen)] = chosen.numpy()
    return probs[start:]
