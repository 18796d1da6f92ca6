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
            return _expanded(Path(chosen)).absolute()
        return _user_data_folder()
    except RuntimeError as error:  # pathlib's way of saying that there is no home folder
        raise MiniInferError("There is no home folder here: set MINIINFER_HOME to a folder you may write.") from error


def _user_data_folder() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home() / "AppData" / "Local") / "MiniInfer"
    if sys.platform == "darwin":
        return _home() / "Library" / "Application Support" / "MiniInfer"
    base = os.environ.get("XDG_DATA_HOME")
    # The XDG rules say that a relative path is to be ignored.
    return (Path(base) if base and os.path.isabs(base) else _home() / ".local" / "share") / "miniinfer"


def _expanded(path: Path) -> Path:
    if path.parts[:1] == ("~",):
        return _home().joinpath(*path.parts[1:])
    return path.expanduser()  # another user's home, or none at all


def _home() -> Path:
    """The user's home folder. Raises RuntimeError if there is none."""
    if sys.platform == "win32" or os.environ.get("HOME") != "":
        return Path.home()
    # Set and empty, as some services leave it: Python would take the root of the file system for it.
    import pwd

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError as error:
        raise RuntimeError("The system knows no home folder of this user.") from error


def models_dir() -> Path:
    """The folder of fetched model files."""
    return data_home() / "models"
