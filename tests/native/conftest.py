"""The compiled core, built once for all tests with the compiler of this machine."""

from __future__ import annotations

import pytest
import torch

from miniinfer.native.backend import NativeBackend
from miniinfer.native.build import built_library
from miniinfer.native.library import Library, NativeError


@pytest.fixture(scope="session")
def library() -> Library:
    try:
        return built_library()
    except NativeError as error:
        pytest.fail(f"The tests of the compiled core need a C++ compiler. {error}", pytrace=False)


@pytest.fixture(scope="session")
def backend(library: Library) -> NativeBackend:
    return NativeBackend(library)


@pytest.fixture(autouse=True)
def two_threads(library: Library):
    """Whatever a test before it has chosen; parts are shared even if this machine has one core."""
    library.set_threads(2)
    yield
    library.set_threads(torch.get_num_threads())
