"""RoPE looked at for one query and one key of a live run: pairs of dimensions before and after, and what it is for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from miniinfer.trace.attention.one_head import torch_of
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.records import FloatArray

SHIFTS = (0, 1, 10, 100, 1000)  # both positions moved by these: the score must stay


@dataclass(frozen=True)
class Rotation:
    """q of `position` and k of `key`, one head. Pair i is (x[i], x[i + D/2]): arrays [D/2, 2].

    frequencies: [D/2] radians a position; a vector at position p is turned by p x frequency. Before: turned back from
    what was kept, within float32 rounding.
    distances, scores: q . k / sqrt(D) if the same two vectors stood this far apart. shifted: the score with both
    positions moved by SHIFTS.
    """

    layer: int
    head: int
    position: int
    key: int
    frequencies: FloatArray
    q_before: FloatArray
    q_after: FloatArray
    k_before: FloatArray
    k_after: FloatArray
    distances: FloatArray
    scores: FloatArray
    shifted: tuple[float, ...]

    @property
    def products(self) -> FloatArray:
        """[D/2]: what each pair gives to q . k after the rotation."""
        result: FloatArray = (self.q_after * self.k_after).sum(1)
        return result

    @property
    def products_before(self) -> FloatArray:
        """[D/2]: what each pair would give without RoPE."""
        result: FloatArray = (self.q_before * self.k_before).sum(1)
        return result


def rotation_of(run: LiveRun, layer: int, head: int, position: int, key: int, max_distance: int) -> Rotation:
    """distances run from 0 to max_distance. Raises BadInputError if the query was dropped."""
    import torch

    from miniinfer.engine.lookup import kv_at
    from miniinfer.engine.lookup_attention import rotated, unrotate

    engine = run.engine
    q_after = torch_of(run.queries(layer, position, position + 1))[:, head : head + 1]  # [1, 1, D]
    kv_head = head // run.info.model.group_size
    k_after = kv_at(engine, run.seq, layer, key, key + 1)[0][kv_head][None]  # [1, 1, D]
    q = unrotate(engine, q_after, torch.tensor([position]))
    k = unrotate(engine, k_after, torch.tensor([key]))

    def scores(of_q: list[int], of_k: list[int]) -> FloatArray:
        """The score at each pair of positions."""
        turned_q = rotated(engine, q.expand(len(of_q), -1, -1), torch.tensor(of_q))[:, 0].float()
        turned_k = rotated(engine, k.expand(len(of_k), -1, -1), torch.tensor(of_k))[:, 0].float()
        found = (turned_q * turned_k).sum(-1) * run.info.model.head_dim**-0.5
        result: FloatArray = found.cpu().numpy()
        return result

    distances = list(range(max_distance + 1))
    shifted = scores([position + s for s in SHIFTS], [key + s for s in SHIFTS])
    return Rotation(
        layer, head, position, key, engine.rope.frequencies.float().cpu().numpy(), _pairs(q), _pairs(q_after),
        _pairs(k), _pairs(k_after), np.array(distances, np.float32),
        scores([max_distance] * len(distances), [max_distance - d for d in distances]), tuple(map(float, shifted)),
    )


def _pairs(x: object) -> FloatArray:
    """[1, 1, D] -> [D/2, 2]."""
    import torch

    assert isinstance(x, torch.Tensor)
    halves = x.float().cpu().reshape(2, -1).numpy()
    return np.ascontiguousarray(halves.T)
