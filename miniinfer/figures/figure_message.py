"""A figure as the message that our own figure component draws: the figure's JSON, its name, what it shows."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np
import plotly.graph_objects as go

from miniinfer.figures.plain import Spec


def figure_message(figure: go.Figure | Spec, name: str, alt: str, *, picks: bool = False) -> bytes:
    """JSON in UTF-8. name: of the file that it is saved as, without an ending. alt: its title in words. picks: a click
    on a point asks for something. Plotly's template is left out: every figure of ours says all that it needs."""
    spec = figure.to_dict() if isinstance(figure, go.Figure) else figure
    layout = {key: value for key, value in spec["layout"].items() if key != "template"}
    message = {"name": name, "alt": alt, "picks": picks, "figure": {"data": spec["data"], "layout": layout}}
    return json.dumps(_for_json(message), ensure_ascii=False, allow_nan=False).encode()


def _for_json(value: Any) -> Any:
    """Arrays as plotly writes them, their bytes in base64; what is no number in a list becomes null."""
    if isinstance(value, dict):
        return {key: _for_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_for_json(item) for item in value]
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _array(array: np.ndarray[Any, Any]) -> Any:
    if array.dtype.kind not in "fi":
        return _for_json(array.tolist())
    small = array.astype(np.int32 if array.dtype.kind == "i" else np.float32 if array.itemsize <= 4 else np.float64)
    found = {"dtype": f"{small.dtype.kind}{small.itemsize}", "bdata": base64.b64encode(small.tobytes()).decode()}
    return found if small.ndim == 1 else found | {"shape": ", ".join(map(str, small.shape))}
