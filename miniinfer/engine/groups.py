"""Which rows attend together: attention is the one place where the rows of a step cannot simply be stacked.

The sequences at the front of a step that bring one row each (decode) form groups, each padded to its longest context:
mostly one group, more where the padding would cost more than another group does (`cheapest_cuts`). Every other sequence
(a chunk of a prompt) is a group of its own. So a lone sequence, a batch, a chunk and a mix of them all go through the
same three attention stages. `one_group_each` is the readable reference for it.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import torch
from torch import Tensor

from miniinfer.engine.scheduler import Scheduled

MakeGroups = Callable[[SequenceOf[Scheduled], torch.device], "tuple[AttnGroup, ...]"]
GROUP_COST = 256  # padded positions that take as long as the calls of one more group (docs/performance.md)


@dataclass(frozen=True)
class AttnGroup:
    """S sequences with Tq rows each; S is 1 or Tq is 1. Head h reads the keys of K/V head h // G.

    hidden: [S, 1, Tq, C] bool, True where a row must not look: at later positions, and past the end of a sequence
    shorter than the longest. None if every row sees all C keys.
    """

    first_seq: int  # index into state.scheduled
    num_seqs: int  # S
    first_row: int  # index into the T rows of the step
    num_rows: int  # Tq, of each sequence
    context_lens: tuple[int, ...]  # [S] positions in the cache after this step
    hidden: Tensor | None

    @property
    def context_len(self) -> int:
        """C: that of the longest sequence."""
        return max(self.context_lens)

    def split_queries(self, q: Tensor, num_kv_heads: int) -> Tensor:
        """q [T, H, D] of the step -> the rows of this group as [K * S, G * Tq, D], ready for one batched product."""
        stop = self.first_row + self.num_seqs * self.num_rows
        rows = q[self.first_row : stop]  # [S * Tq, H, D]
        rows = rows.view(self.num_seqs, self.num_rows, num_kv_heads, -1, q.shape[-1])  # [S, Tq, K, G, D]
        by_head = rows.permute(2, 0, 3, 1, 4)  # [K, S, G, Tq, D]
        return by_head.reshape(num_kv_heads * self.num_seqs, -1, q.shape[-1])  # [K * S, G * Tq, D]

    def split_heads(self, x: Tensor, num_kv_heads: int) -> Tensor:
        """[K * S, G * Tq, X] -> [K, S, G, Tq, X]."""
        return x.view(num_kv_heads, self.num_seqs, -1, self.num_rows, x.shape[-1])

    def join_heads(self, z: Tensor, num_kv_heads: int) -> Tensor:
        """z [K * S, G * Tq, D] -> [S * Tq, H, D], the order of the step's rows."""
        by_head = self.split_heads(z, num_kv_heads)  # [K, S, G, Tq, D]
        return by_head.permute(1, 3, 0, 2, 4).reshape(self.num_seqs * self.num_rows, -1, z.shape[-1])


def make_group(scheduled: SequenceOf[Scheduled], first_seq: int, num_seqs: int, device: torch.device) -> AttnGroup:
    """The group of num_seqs neighbours that bring the same number of rows each."""
    members = scheduled[first_seq : first_seq + num_seqs]
    num_rows = members[0].num_tokens
    context_lens = tuple(entry.stop for entry in members)
    hidden = None
    if num_rows > 1 or len(set(context_lens)) > 1:
        lengths = torch.tensor(context_lens, device=device)
        later_rows = torch.arange(num_rows - 1, -1, -1, device=device)  # [Tq] rows of the sequence after each one
        visible = lengths[:, None] - later_rows  # [S, Tq] keys that each row sees
        hidden = torch.arange(max(context_lens), device=device) >= visible[:, None, :, None]  # [S, 1, Tq, C]
    first_row = sum(entry.num_tokens for entry in scheduled[:first_seq])
    return AttnGroup(first_seq, num_seqs, first_row, num_rows, context_lens, hidden)


def make_groups(
    scheduled: SequenceOf[Scheduled], device: torch.device, group_cost: int | None = None
) -> tuple[AttnGroup, ...]:
    """The leading one-row sequences together, or cut into neighbours of like length; every other sequence alone.

    group_cost: padded positions that take as long as one more group, where that is not GROUP_COST.
    """
    leading = 0
    while leading < len(scheduled) and scheduled[leading].num_tokens == 1:
        leading += 1
    decoding = [entry.stop for entry in scheduled[:leading]]
    cuts = cheapest_cuts(decoding, GROUP_COST if group_cost is None else group_cost)
    sizes = [*cuts, *[1] * (len(scheduled) - leading)]
    groups, first = [], 0
    for size in sizes:
        groups.append(make_group(scheduled, first, size, device))
        first += size
    return tuple(groups)


def cheapest_cuts(context_lens: SequenceOf[int], group_cost: int = GROUP_COST) -> list[int]:
    """How many neighbours to put into each group, so that the padded positions of all groups, and group_cost for each
    of them, are the fewest together. Of equal costs the one with longer groups first."""
    best: list[tuple[int, list[int]]] = [(0, [])]  # for the first n sequences: cost, sizes
    for n in range(1, len(context_lens) + 1):
        ways = []
        for size in range(n, 0, -1):
            cost, sizes = best[n - size]
            ways.append((cost + size * max(context_lens[n - size : n]) + group_cost, [*sizes, size]))
        best.append(min(ways, key=lambda way: way[0]))
    return best[-1][1]


def one_group_each(scheduled: SequenceOf[Scheduled], device: torch.device) -> tuple[AttnGroup, ...]:
    """Every sequence alone: no padding to explain, and the reference for `make_groups`."""
    return tuple(make_group(scheduled, i, 1, device) for i in range(len(scheduled)))
