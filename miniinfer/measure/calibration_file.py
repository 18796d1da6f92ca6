"""The kept calibration: one JSON file per device, valid only for the machine and settings it was measured with."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import torch

from miniinfer.errors import MiniInferError
from miniinfer.measure.calibration import CalibrationError, check_calibration, machine_of
from miniinfer.measure.records import Calibration, Machine

FORMAT = 1


def save_calibration(found: Calibration, folder: Path) -> Path:
    """Keep it in `folder`, in the place of an older one. Raises CalibrationError for nonsense, with nothing written."""
    check_calibration(found)
    path = _path(folder, found.machine.device)
    waiting = path.with_suffix(f".{os.getpid()}.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        waiting.write_text(json.dumps({"format": FORMAT} | asdict(found), indent=1), encoding="utf-8")
        waiting.replace(path)
    except OSError as error:
        raise MiniInferError(f"The calibration could not be kept in {folder} ({error.strerror}).") from error
    return path


def load_calibration(folder: Path, device: torch.device) -> Calibration | None:
    """The one that was kept for this device; None if there is none.

    Raises CalibrationError, with what to do, if it belongs to another machine or setting, is damaged, or cannot be.
    """
    try:
        text = _path(folder, str(device)).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CalibrationError("The kept calibration cannot be read; calibrate again.") from error
    found = _parse(text)
    here = machine_of(device)
    if found.machine != here:
        was, now = asdict(found.machine), asdict(here)
        changed = ", ".join(f"{key} {was[key]} then, {now[key]} now" for key in now if was[key] != now[key])
        raise CalibrationError(f"The kept calibration is stale ({changed}); calibrate again.")
    return found


def _parse(text: str) -> Calibration:
    try:
        data = json.loads(text)
        if data.pop("format") != FORMAT:
            raise ValueError
        found = Calibration(**data | {"machine": Machine(**data["machine"])})
        if not all(isinstance(n, int) and n >= 0 for n in (found.rounds, found.warm_up, found.buffer_bytes)):
            raise ValueError
        check_calibration(found)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CalibrationError("The kept calibration is damaged; calibrate again.") from error
    return found


def _path(folder: Path, device: str) -> Path:
    return folder / f"calibration-{device.replace(':', '-')}.json"
