"""Products with 4-bit blocks and with float16 against plain products with the numbers that they stand for."""

from __future__ import annotations

import pytest
import torch

from miniinfer.engine.packed import CHUNK, GROUP, Blocks, Float16Linear, Int4Linear


def random_blocks(rows: int, columns: int, seed: int = 0) -> Blocks:
    generator = torch.Generator().manual_seed(seed)
    scale = torch.rand(rows, columns // GROUP, generator=generator) * 0.1
    low = -8 * scale + 0.1 * torch.randn(rows, columns // GROUP, generator=generator)
    q = torch.randint(0, 16, (rows, columns), generator=generator, dtype=torch.uint8)
    return Blocks(q, scale, low)


def numbers(blocks: Blocks) -> torch.Tensor:
    """[out, in], as the blocks define them."""
    q = blocks.q.view(*blocks.scale.shape, GROUP).float()
    return (blocks.scale[..., None] * q + blocks.low[..., None]).flatten(1)


@pytest.mark.parametrize("shape", [(16, 32), (64, 96), (CHUNK + 48, 64)])
def test_the_kernel_computes_with_the_numbers_of_the_blocks(shape: tuple[int, int]) -> None:
    blocks = random_blocks(*shape)
    dense = Int4Linear(blocks).to_dense()
    # A scale and a zero in bfloat16 keep 8 bits: 2^-8 of each is the most that rounding takes.
    most = (8 * blocks.scale + (blocks.low + 8 * blocks.scale).abs()).repeat_interleave(GROUP, dim=1) / 2**8
    assert ((dense - numbers(blocks)).abs() <= most * 1.001).all()
    assert not torch.equal(dense, numbers(blocks)), "something is lost, and the docs say so"


def test_scales_that_bfloat16_holds_lose_nothing() -> None:
    blocks = random_blocks(32, 64)
    blocks = Blocks(blocks.q, torch.full_like(blocks.scale, 0.25), torch.full_like(blocks.low, -1.5))
    assert torch.equal(Int4Linear(blocks).to_dense(), numbers(blocks))
    assert blocks.difference()[0] == 0


@pytest.mark.parametrize("rows", [0, 1, 7, 33])
def test_a_product_rounds_rows_and_results_and_nothing_else(rows: int) -> None:
    linear = Int4Linear(random_blocks(48, 96))
    x = torch.randn(rows, 96, generator=torch.Generator().manual_seed(1))
    exact = x.bfloat16().double() @ linear.to_dense().double().T
    found = linear(x)
    assert found.dtype == torch.float32
    assert found.shape == (rows, 48)
    torch.testing.assert_close(found, exact.float(), rtol=2**-8, atol=1e-3)
    assert torch.equal(found, found.bfloat16().float())


def test_a_row_is_the_same_in_any_company() -> None:
    linear = Int4Linear(random_blocks(48, 96))
    x = torch.randn(9, 96, generator=torch.Generator().manual_seed(1))
    assert torch.equal(linear(x)[4:5], linear(x[4:5]))


def test_bytes_are_those_of_the_blocks() -> None:
    linear = Int4Linear(random_blocks(48, 96))
    assert linear.nbytes == 48 * 96 // 2 + 48 * 96 // GROUP * 4
    assert (linear.out_features, linear.in_features, linear.storage) == (48, 96, "4-bit blocks")
    assert not linear.prepacked
    assert Int4Linear.takes(48)
    assert not Int4Linear.takes(40)


def test_the_difference_is_that_of_all_numbers() -> None:
    blocks = random_blocks(CHUNK + 16, 64)
    dense, file = Int4Linear(blocks).to_dense().double(), numbers(blocks).double()
    lost, whole = blocks.difference()
    assert lost == pytest.approx(float((dense - file).square().sum()), rel=1e-3)
    assert whole == pytest.approx(float(file.square().sum()), rel=1e-3)
    assert lost > 0


def test_rows_can_be_joined() -> None:
    first, second = random_blocks(16, 64, seed=1), random_blocks(32, 64, seed=2)
    joined = Int4Linear(Blocks.joined([first, second])).to_dense()
    assert torch.equal(joined, torch.cat([Int4Linear(first).to_dense(), Int4Linear(second).to_dense()]))


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_float16(rows: int) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, x = torch.randn(44, 28, generator=generator), torch.randn(rows, 28, generator=generator)
    if not Float16Linear.takes(weight):
        assert torch.backends.quantized.engine not in ("fbgemm", "x86"), "only another kind of processor may refuse"
        return
    linear = Float16Linear(weight)
    assert torch.equal(linear.to_dense(), weight.half().float())
    torch.testing.assert_close(linear(x), x @ weight.half().float().T, atol=1e-5, rtol=1e-5)
    assert (linear.nbytes, linear.storage, linear.dtype) == (44 * 28 * 2, "float16", torch.float32)
    assert not linear.prepacked


def test_numbers_too_large_for_float16_are_refused() -> None:
    assert not Float16Linear.takes(torch.full((2, 2), 65536.0))
    assert not Float16Linear.takes(torch.full((2, 2), float("nan")))
