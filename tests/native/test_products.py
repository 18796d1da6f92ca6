"""Every layout of a matrix against the same product in float64."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, quants
from torch import Tensor

from miniinfer.engine.linear import Linear
from miniinfer.engine.packed import Blocks, Int4Linear
from miniinfer.native import build
from miniinfer.native.library import BFLOAT16_PANELS, FLOAT32_PANELS, Q8_ROWS, Library, Matrix
from miniinfer.native.products import MOST_ROWS, NativeLinear, native_linear

ROWS = [1, 2, 3, 4, 5, 8, 9, 23]


@pytest.fixture(scope="module")
def plain_library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Built for any processor of this kind: the plain forms, where this one has instructions of its own."""
    path = tmp_path_factory.mktemp("plain") / "core.so"
    sources = [str(build.HERE / name) for name in build.SOURCES if name.endswith(".cpp")]
    build._run([build.find_compiler(), *build.OPTIONS, *sources, "-o", str(path)])
    plain = Library(path)
    plain.set_threads(2)
    return plain


@pytest.fixture(params=["this processor", "any processor"])
def library(request: pytest.FixtureRequest, library: Library) -> Library:
    return library if request.param == "this processor" else request.getfixturevalue("plain_library")


def rows_of(count: int, size: int) -> Tensor:
    return torch.randn(count, size, generator=torch.Generator().manual_seed(count)) * 3


def exact(x: Tensor, matrix: Tensor) -> Tensor:
    return (x.double() @ matrix.double().T).float()


def close(found: Tensor, wanted: Tensor, share: float) -> None:
    """Within a share of the largest number."""
    assert found.shape == wanted.shape
    assert (found - wanted).abs().max() <= share * wanted.abs().max()


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("shape", [(128, 96), (576, 1536), (100, 36), (67, 28), (24, 16)], ids=str)
def test_float32_as_onednn_has_packed_it(rows: int, shape: tuple[int, int], library: Library) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    linear = native_linear(Linear(matrix), library)
    assert type(linear) is NativeLinear, "another version of torch packs in another order: the core must learn it"
    x = rows_of(rows, shape[1])
    close(linear(x), exact(x, matrix), 4e-6)
    assert torch.equal(linear.to_dense(), matrix)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("shape", [(128, 96), (576, 1536), (100, 36), (67, 29), (24, 16)], ids=str)
def test_bfloat16_as_onednn_has_packed_it(rows: int, shape: tuple[int, int], library: Library) -> None:
    """Sums are float32, so a result is off by its own rounding: 2^-9 of itself."""
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1)).bfloat16()
    linear = native_linear(Linear(matrix), library)
    assert type(linear) is NativeLinear, "another version of torch packs in another order: the core must learn it"
    x = rows_of(rows, shape[1]).bfloat16()
    found = linear(x)
    assert found.dtype == torch.bfloat16
    close(found.float(), exact(x, matrix), 2**-8)
    wanted = exact(x, matrix).bfloat16()
    assert (found != wanted).float().mean() < 0.05, "only what lies in the middle of two numbers may fall either way"


@pytest.mark.parametrize("width", [16, 32, 48, 64])
def test_panels_of_every_width(width: int, library: Library) -> None:
    out, size = 2 * width + 5, 41
    matrix = torch.randn(out, size).bfloat16()
    padded = torch.zeros(3 * width, size + 1, dtype=torch.bfloat16)
    padded[:out, :size] = matrix
    x = rows_of(7, size).bfloat16()
    wide = x.float()
    panels = padded.view(3, width, size + 1).transpose(1, 2).float().contiguous()
    y = torch.full((7, out), float("nan"))
    core = Matrix(FLOAT32_PANELS, width, out, size, size + 1, panels.data_ptr(), None)
    library.linear(ctypes.addressof(core), wide.data_ptr(), 7, y.data_ptr())
    close(y, exact(x, matrix), 4e-6)
    pairs = padded.view(3, width, -1, 2).transpose(1, 2).contiguous()
    half = torch.full((7, out), float("nan"), dtype=torch.bfloat16)
    core = Matrix(BFLOAT16_PANELS, width, out, size, size + 1, pairs.data_ptr(), None)
    library.of(bfloat16=True).linear(ctypes.addressof(core), x.data_ptr(), 7, half.data_ptr())
    close(half.float(), exact(x, matrix), 2**-8)


def blocks_of(out: int, size: int) -> tuple[Blocks, Tensor]:
    """Random blocks, and the matrix that they mean once scales are bfloat16."""
    generator = torch.Generator().manual_seed(out)
    q = torch.randint(0, 16, (out, size), dtype=torch.uint8, generator=generator)
    scale = torch.rand(out, size // 32, generator=generator) * 0.1
    blocks = Blocks(q, scale, -7 * scale + 0.01)
    scale16, zero = scale.bfloat16().float(), (blocks.low + 8 * scale).bfloat16().float()
    numbers = scale16[..., None] * (q.view(out, -1, 32).float() - 8) + zero[..., None]
    return blocks, numbers.flatten(1)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("shape", [(64, 32), (192, 96), (576, 1536)], ids=str)
def test_4_bit_blocks_as_torch_has_packed_them(rows: int, shape: tuple[int, int], library: Library) -> None:
    """Closer to the numbers of the blocks than torch, which rounds rows and results to bfloat16."""
    blocks, matrix = blocks_of(*shape)
    inner = Int4Linear(blocks)
    linear = native_linear(inner, library)
    assert type(linear) is NativeLinear, "another version of torch packs in another order: the core must learn it"
    x = rows_of(rows, shape[1])
    wanted = exact(x, matrix)
    if not linear.takes(rows):
        return close(linear(x), wanted, 0.02)
    close(linear(x), wanted, 1e-4)
    assert (linear(x) - wanted).abs().max() < 0.1 * (inner(x) - wanted).abs().max()


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("out", [64, 131])
def test_q8_rows_as_the_file_has_them(rows: int, out: int, library: Library) -> None:
    numbers = torch.randn(out, 96).numpy()
    stored = quants.quantize(numbers, GGMLQuantizationType.Q8_0)
    matrix = torch.from_numpy(np.asarray(quants.dequantize(stored, GGMLQuantizationType.Q8_0)))
    kept = torch.from_numpy(stored)
    x, y = rows_of(rows, 96), torch.empty(rows, out)
    core = Matrix(Q8_ROWS, 64, out, 96, 96, kept.data_ptr(), None)
    library.linear(ctypes.addressof(core), x.data_ptr(), rows, y.data_ptr())
    close(y, exact(x, matrix), 1e-4)


@pytest.mark.parametrize("spoiled", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_stays_visible(spoiled: float, library: Library) -> None:
    """Breakpoints look for them; a whole number of 16 bits would hide them."""
    linear = native_linear(Int4Linear(blocks_of(64, 96)[0]), library)
    x = rows_of(2, 96)
    x[1, 40] = spoiled
    assert linear(x)[0].isfinite().all()
    assert not linear(x)[1].isfinite().any()


def test_a_row_of_zeros_and_a_row_of_tiny_numbers(library: Library) -> None:
    blocks, matrix = blocks_of(64, 96)
    linear = native_linear(Int4Linear(blocks), library)
    x = torch.stack((torch.zeros(96), rows_of(1, 96)[0] * 1e-30))
    assert torch.equal(linear(x)[0], torch.zeros(64))
    close(linear(x)[1], exact(x, matrix)[1], 1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_many_rows_are_torchs_where_torch_is_faster(dtype: torch.dtype, library: Library) -> None:
    inner = Linear(torch.randn(64, 32).to(dtype))
    linear = native_linear(inner, library)
    assert type(linear) is NativeLinear
    x = rows_of(MOST_ROWS + 201, 32).to(dtype)
    if linear.takes(len(x)):
        close(linear(x).float(), inner(x).float(), 4e-6 if dtype == torch.float32 else 2**-7)
    else:
        assert torch.equal(linear(x), inner(x))
    assert linear(x[:0]).shape == (0, 64)
    strided = rows_of(4, 64)[:, ::2].to(dtype)
    close(linear(strided).float(), inner(strided).float(), 4e-6 if dtype == torch.float32 else 2**-7)


def test_many_rows_of_4_bit_blocks_equal_few(library: Library) -> None:
    """A prompt is computed with the rounding of decode where the core computes it at all."""
    linear = native_linear(Int4Linear(blocks_of(192, 96)[0]), library)
    x = rows_of(40, 96)
    x[7] *= 1e4
    if linear.takes(40):
        close(linear(x), torch.cat([linear(row[None]) for row in x]), 2e-6)
    else:
        assert torch.equal(linear(x), linear.inner(x)), "this processor has no such product"


def test_memory_that_is_moved_into_large_pages_keeps_its_numbers(library: Library) -> None:
    """Also where it does not fill a page, and where no page can be moved."""
    for size in (100, 3 << 20):
        numbers = torch.arange(size, dtype=torch.float32)
        library.large_pages(numbers.data_ptr() + 4, 4 * (size - 1))
        assert torch.equal(numbers, torch.arange(size, dtype=torch.float32))
    library.large_pages(0, 1)


def test_a_matrix_in_an_unknown_order_stays_with_torch(library: Library, monkeypatch) -> None:
    """The size fits, the order does not: the product with two rows finds out."""
    linear, other = Linear(torch.randn(128, 96)), torch.randn(128, 96)
    monkeypatch.setattr(Linear, "packed_memory", lambda _self: (other.data_ptr(), other.nbytes))
    assert native_linear(linear, library) is linear
    assert native_linear(Linear.plain(other), library).prepacked is False
