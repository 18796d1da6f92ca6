"""The packed product against the plain one, and what an embedding promises."""

from __future__ import annotations

import pytest
import torch

from miniinfer.engine.embedding import Embedding
from miniinfer.engine.linear import Linear, can_prepack


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 28), (7, 28), (2, 3, 28), (0, 28)])
def test_packed_equals_plain(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(44, 28, generator=generator).to(dtype)
    x = torch.randn(*shape, generator=generator).to(dtype)
    packed, plain = Linear(weight), Linear.plain(weight)
    assert packed(x).shape == plain(x).shape == (*shape[:-1], 44)
    tolerance = 1e-4 if dtype == torch.float32 else 0.1
    torch.testing.assert_close(packed(x), plain(x), atol=tolerance, rtol=1e-3)
    assert packed(x).dtype == dtype


def test_a_linear_says_what_it_holds() -> None:
    weight = torch.randn(44, 28)
    linear = Linear(weight)
    assert (linear.out_features, linear.in_features, linear.nbytes) == (44, 28, 44 * 28 * 4)
    assert linear.prepacked == can_prepack(weight)
    assert not Linear.plain(weight).prepacked
    assert torch.equal(linear.to_dense(), weight)


def test_a_matrix_has_two_dimensions() -> None:
    with pytest.raises(ValueError, match="two dimensions"):
        Linear(torch.zeros(3))


def test_dense_embedding_gives_rows() -> None:
    matrix = torch.randn(6, 4)
    embedding = Embedding.dense(matrix)
    assert torch.equal(embedding(torch.tensor([5, 0, 5])), matrix[[5, 0, 5]])
    assert (embedding.nbytes, embedding.storage) == (96, "float32")
