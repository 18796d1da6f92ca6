"""The model of a saved run: which one it was, and whether its file is still that one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from miniinfer.errors import BadInputError
from miniinfer.figures.quoting import quoted
from miniinfer.models.file_state import file_bytes, file_sample
from miniinfer.models.registry import DEFAULT_MODEL, MODELS, existing_path
from miniinfer.store.saved_run import SavedModel, SavedRun
from miniinfer.ui.sessions.model_host import ModelKey

if TYPE_CHECKING:
    from miniinfer.models.loader import LoadedModel

MOST_BLOCK_SIZE = 1024


def saved_model(key: ModelKey, model: LoadedModel, backend: str) -> SavedModel:
    """backend: what the run's engine computes with."""
    return SavedModel(
        model.name, key.source, key.device, key.dtype, model.file_bytes, model.file_sample or None, backend
    )


def key_of(saved: SavedModel) -> ModelKey:
    return ModelKey(saved.source, saved.device, saved.dtype)


def file_of(saved: SavedModel) -> Path | None:
    """The file or folder that made a run; None if there is nothing at its place."""
    known = MODELS.get(saved.source or DEFAULT_MODEL)
    if known is not None:
        return known.path if known.path.exists() else None
    return existing_path(saved.source)


def is_of(saved: SavedModel, model: LoadedModel) -> bool:
    """Whether the loaded model has the very weights that made a run. Runs that were saved before samples of the file
    were kept go by its size."""
    if saved.file_sample is not None and model.file_sample:
        return saved.file_sample == model.file_sample
    return saved.file_bytes == model.file_bytes


def where_it_is_now(saved: SavedRun, key: ModelKey, model: LoadedModel | None) -> SavedRun:
    """The run; on the loaded model, if that has the very same weights and the run's own file is not at its place any
    more: it was moved."""
    moved = model is not None and saved.model.file_sample is not None and is_of(saved.model, model)
    if not moved or key.dtype != saved.model.dtype or _wrong(saved) is None:
        return saved
    return replace(saved, model=replace(saved.model, source=key.source, device=key.device))


def check_model_file(saved: SavedRun) -> None:
    """Raises BadInputError, one sentence, if the file that made this run is gone or is another one now."""
    if not 1 <= saved.block_size <= MOST_BLOCK_SIZE:
        raise BadInputError(
            f"{quoted(saved.name)} has a block size of {saved.block_size:,}, which no run here can have."
        )
    if (wrong := _wrong(saved)) is not None:
        raise BadInputError(
            f"{quoted(saved.name)} was made with {saved.model.source or DEFAULT_MODEL}{wrong}. Put that file back, "
            "or load it from where it is now (side panel, Model), and open the run again; it stays in the list of "
            "saved runs."
        )


def _wrong(saved: SavedRun) -> str | None:
    """What is wrong with the file at its place, to be said after its name; None if nothing is."""
    made, path = saved.model, file_of(saved.model)
    if path is None:
        known = (made.source or DEFAULT_MODEL) in MODELS  # such a one is fetched when it is asked for
        return None if known else ", which is not there"
    if (now := file_bytes(path)) != made.file_bytes:
        return f" of {made.file_bytes:,} bytes, and the file there has {now:,}: it was replaced"
    if made.file_sample is not None and made.file_sample != file_sample(path):
        return ", and the file there has the same size and other weights: it was replaced"
    return None


def check_loaded(saved: SavedRun, model: LoadedModel | None) -> LoadedModel:
    """The model in memory. Raises BadInputError if there is none, or if it is another one than made this run: its file
    was replaced since it was loaded."""
    if model is None:
        raise BadInputError("the model is not loaded yet.")
    if not is_of(saved.model, model):
        raise BadInputError(
            f"the loaded model, {model.name}, has other weights than the one that made it. Load that one (side panel, "
            "Model) and open the run again."
        )
    return model
