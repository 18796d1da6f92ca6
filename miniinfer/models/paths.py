"""Where models and saved runs are kept: one folder per user. Standard library only."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from miniinfer.errors import MiniInferError


def data_home() -> Path:
    """MINIINFER_HOME if it is set, else the folder in which this system keeps a user's program data.

    The folder is not created. Raises MiniInferError if the system names no home folder.
    """
    chosen = os.environ.get("MINIINFER_HOME")
    try:
        if chosen:
            return Path(chosen).expanduser().absolute()
        return _user_data_folder()
    except RuntimeError as error:  # pathlib's way of saying that there is no home folder
        raise MiniInferError("There is no home folder here: set MINIINFER_HOME to a folder you may write.") from error


def _user_data_folder() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home() / "AppData" / "Local") / "MiniInfer"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "MiniInfer"
    base = os.environ.get("XDG_DATA_HOME")
    # The XDG rules say that a relative path is to be ignored.
    return (Path(base) if base and os.path.isabs(base) else Path.home() / ".local" / "share") / "miniinfer"


def models_dir() -> Path:
    """The folder of fetched model files."""
    return data_home() / "models"
