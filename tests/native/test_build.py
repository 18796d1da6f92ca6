"""From the sources to a library: kept, built anew when something changes, and every way in which it can fail."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from miniinfer.engine.backend import TORCH
from miniinfer.errors import BadInputError
from miniinfer.native import build
from miniinfer.native.build import BackgroundBuild, built_library, find_compiler, library_path
from miniinfer.native.choose import Native, choose_backend, switched_off
from miniinfer.native.library import COMMON, VERSION, Library, NativeError
from tests.engine.tiny import tiny_model


@pytest.fixture
def home(tmp_path: Path, monkeypatch, library: Library) -> Path:
    """A data folder of its own, with the library of this machine in it, so that nothing need be compiled."""
    compiled = library.path
    monkeypatch.setenv("MINIINFER_HOME", str(tmp_path))
    path = library_path(find_compiler())
    path.parent.mkdir(parents=True)
    path.write_bytes(compiled.read_bytes())
    build._checksum_file(path).write_bytes(build._checksum_file(compiled).read_bytes())
    return tmp_path


@pytest.fixture
def compiled(monkeypatch) -> list[str]:
    """The compilations that are asked for; each takes the shortest program that has the right version."""
    calls: list[str] = []
    run = build._run

    def count(command: list[str]) -> str:
        if "-o" in command:
            calls.append(command[-1])
            source = Path(command[-1]).with_suffix(".c")
            lines = [f"void {name}(void) {{}}" for name in COMMON]
            lines.append("const void* mi_function(const char* name, long long bfloat16) { return name; }")
            source.write_text(f"long long mi_version(void) {{ return {VERSION}; }}\n" + "\n".join(lines))
            command = [command[0], "-x", "c", "-shared", "-fPIC", str(source), "-o", command[-1]]
        return run(command)

    monkeypatch.setattr(build, "_run", count)
    return calls


def test_what_is_built_is_used_again(home: Path, compiled: list[str]) -> None:
    assert built_library().path == built_library().path == library_path(find_compiler())
    assert compiled == []


@pytest.mark.parametrize("damage", ["torn", "changed", "no checksum"])
def test_a_torn_library_is_built_again_and_never_loaded(damage: str, home: Path, compiled: list[str]) -> None:
    path = library_path(find_compiler())
    whole = path.read_bytes()
    if damage == "no checksum":
        build._checksum_file(path).unlink()
    else:
        path.write_bytes(whole[: len(whole) // 2] if damage == "torn" else whole[:-1] + b"?")
    assert built_library().path == path
    assert len(compiled) == 1
    assert build._is_whole(path)
    assert sorted(p.name for p in path.parent.iterdir()) == ["core.sha256", "core.so", "lock"], "nothing lies about"


def test_another_source_another_compiler_another_processor(home: Path, monkeypatch, tmp_path: Path) -> None:
    compiler = find_compiler()
    paths = {library_path(compiler)}
    monkeypatch.setattr(build, "processor", lambda: "another one")
    paths.add(library_path(compiler))
    twin = tmp_path / "other-compiler"
    twin.write_text(f"#!/bin/sh\nexec {compiler} \"$@\"\n")
    twin.chmod(twin.stat().st_mode | stat.S_IXUSR)
    paths.add(library_path(str(twin)))
    for name in build.SOURCES:
        (tmp_path / name).write_bytes((build.HERE / name).read_bytes())
    (tmp_path / "vectors.h").write_text("// changed\n")
    monkeypatch.setattr(build, "HERE", tmp_path)
    paths.add(library_path(compiler))
    assert len(paths) == 4


def test_every_source_is_named_and_packaged() -> None:
    """A file that core.cpp includes but the hash forgets would leave an old library in use."""
    there = {path.name for path in build.HERE.iterdir() if path.suffix in (".cpp", ".h")}
    assert there == set(build.SOURCES)
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert '"native/*.cpp", "native/*.h"' in project


def test_without_a_compiler_there_is_a_sentence(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(NativeError, match=r"there is no C\+\+ compiler: install"):
        built_library()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(NativeError, match="CXX names no-such-compiler, which is not there"):
        built_library()


def test_a_compiler_that_fails_says_why(home: Path, monkeypatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho 'core.cpp:1: no such thing' >&2\nexit 1\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(NativeError, match=r"broken failed: core\.cpp:1: no such thing"):
        built_library()
    left = [path.name for path in library_path(str(broken)).parent.iterdir()]
    assert left == ["lock"]


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch, library: Library) -> None:
    (tmp_path / "native").write_text("a file where the folder should be")
    monkeypatch.setenv("MINIINFER_HOME", str(tmp_path))
    with pytest.raises(NativeError, match="could not be kept in"):
        built_library()


def test_a_library_of_another_version(tmp_path: Path) -> None:
    source = tmp_path / "old.c"
    source.write_text("long long mi_version(void) { return 0; }\n")
    old = tmp_path / "old.so"
    subprocess.run([find_compiler(), "-x", "c", "-shared", "-fPIC", str(source), "-o", str(old)], check=True)
    with pytest.raises(NativeError, match=f"has version 0, not {VERSION}"):
        Library(old)
    with pytest.raises(NativeError, match="could not be loaded"):
        Library(source)


def test_a_library_without_one_of_the_stages(tmp_path: Path) -> None:
    source = tmp_path / "poor.c"
    lines = [f"void {name}(void) {{}}" for name in COMMON]
    source.write_text(
        f"long long mi_version(void) {{ return {VERSION}; }}\n" + "\n".join(lines)
        + "\nconst void* mi_function(const char* name, long long bfloat16) { return bfloat16 ? 0 : name; }\n"
    )
    poor = tmp_path / "poor.so"
    subprocess.run([find_compiler(), "-x", "c", "-shared", "-fPIC", str(source), "-o", str(poor)], check=True)
    with pytest.raises(NativeError, match="could not be loaded: it has no mi_linear"):
        Library(poor)


def test_two_processes_build_it_once(tmp_path: Path) -> None:
    """Both ask at the same moment; the compiler writes down how often it was called."""
    compiler, calls = tmp_path / "compiler", tmp_path / "calls"
    compiler.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo one && exit 0\necho x >> {calls}\n'
        f'for last; do :; done\necho "long long mi_version(void) {{ return 0; }}" > "$last.c"\n'
        f'exec {find_compiler()} -x c -shared -fPIC "$last.c" -o "$last"\n'
    )
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    code = (
        "from miniinfer.native.build import built_library\nfrom miniinfer.native.library import NativeError\n"
        "try:\n    built_library()\nexcept NativeError as error:\n    assert 'version 0' in str(error), error\n"
    )
    environ = os.environ | {"MINIINFER_HOME": str(tmp_path), "CXX": str(compiler)}
    both = [subprocess.Popen([sys.executable, "-c", code], env=environ) for _ in range(2)]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    assert calls.read_text() == "x\n"


def test_the_background_builds_once_and_never_raises(monkeypatch, library: Library) -> None:
    begun, go = threading.Event(), threading.Event()
    answers: list[Library | Exception] = [library, NativeError("No compiler."), RuntimeError("odd")]

    def answer() -> Library:
        begun.set()
        assert go.wait(30)
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(build, "built_library", answer)
    first = BackgroundBuild()
    first.start()
    first.start()
    assert begun.wait(30)
    assert (first.library, first.failure) == (None, None), "it goes on beside us"
    go.set()
    first.wait()
    assert first.library is library
    for text in ("No compiler.", "The compiled core could not be built (RuntimeError: odd)."):
        failed = BackgroundBuild()
        failed.wait()
        assert (failed.library, failed.failure) == (None, text)


class TestChoice:
    def test_auto_takes_the_core_only_where_it_is_built_and_fits(self, library: Library, monkeypatch) -> None:
        monkeypatch.delenv("MINIINFER_NATIVE", raising=False)
        native = Native()
        weights = tiny_model().weights
        assert choose_backend("auto", weights, native=native) is TORCH, "nobody has built it, and nobody waits"
        native._build.library = library
        chosen = choose_backend("auto", weights, native=native)
        assert chosen.name == "native"
        assert choose_backend("auto", weights, native=native) is chosen
        assert choose_backend("torch", weights, native=native) is TORCH
        assert choose_backend("auto", tiny_model(dtype=torch.bfloat16).weights, native=native) is chosen
        double = tiny_model(dtype=torch.float64).weights
        assert choose_backend("auto", double, native=native) is TORCH
        with pytest.raises(NativeError, match="the model is in float64"):
            choose_backend("native", double, native=native)

    def test_native_that_cannot_be_had_is_a_sentence_and_auto_goes_on(self, monkeypatch, caplog) -> None:
        monkeypatch.delenv("MINIINFER_NATIVE", raising=False)
        monkeypatch.delenv("CXX", raising=False)
        monkeypatch.setenv("PATH", "")
        native, weights = Native(), tiny_model().weights
        assert choose_backend("auto", weights, wait=True, native=native) is TORCH
        assert choose_backend("auto", weights, wait=True, native=native) is TORCH
        assert [record.getMessage() for record in caplog.records] == [native.why_not()]
        with pytest.raises(NativeError, match=r"there is no C\+\+ compiler"):
            choose_backend("native", weights, native=native)

    def test_it_can_be_turned_off(self, monkeypatch) -> None:
        monkeypatch.setenv("MINIINFER_NATIVE", "0")
        native, weights = Native(), tiny_model().weights
        native.start()
        assert native._build._thread is None
        assert choose_backend("auto", weights, wait=True, native=native) is TORCH
        with pytest.raises(NativeError, match="turned off by MINIINFER_NATIVE"):
            choose_backend("native", weights, native=native)
        assert switched_off({"MINIINFER_NATIVE": "1"}) is None

    def test_an_unknown_name(self) -> None:
        with pytest.raises(BadInputError, match="backend must be one of auto, torch, native"):
            choose_backend("fast", tiny_model().weights)
