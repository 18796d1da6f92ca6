import json
import zipfile

import numpy as np
import pytest

from miniinfer.errors import ModelFileError
from miniinfer.figures.workspace import HeadAsk, Selection, encode
from miniinfer.trace.file_format import load_trace, save_trace
from tests.trace.recorded import make_run


def test_round_trip_gives_the_same_panels(tmp_path):
    run = make_run(prompt=30, decoded=4)
    save_trace(run, tmp_path / "a.npz")
    back = load_trace(tmp_path / "a.npz")
    asked = Selection(cursor=3, details=(1, 3), head=HeadAsk(2, 1, 0, 99), row=7, probs_from=0)
    assert encode(back, asked) == encode(run, asked)


@pytest.fixture
def saved(tmp_path):
    save_trace(make_run(), tmp_path / "a.npz")
    return tmp_path / "a.npz"


def test_truncated_files_are_named_not_crashed_on(saved, tmp_path):
    data = saved.read_bytes()
    for size in range(0, len(data), 97):
        cut = tmp_path / "cut.npz"
        cut.write_bytes(data[:size])
        with pytest.raises(ModelFileError, match=r"cut\.npz"):
            load_trace(cut)


def test_flipped_bytes_load_equal_or_are_refused(saved, tmp_path):
    data = saved.read_bytes()
    good = encode(load_trace(saved), Selection(details=(1,)))
    for place in range(0, len(data), 61):
        flipped = tmp_path / "flip.npz"
        flipped.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        try:
            run = load_trace(flipped)
        except ModelFileError:
            continue
        assert encode(run, Selection(details=(1,))) == good


def _rewrite(path, out, change):
    arrays = dict(np.load(path))
    header = json.loads(arrays["header.json"].tobytes())
    change(header, arrays)
    arrays["header.json"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(out, **arrays)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda h, a: h.update(version=2), "version 2"),
        (lambda h, a: h.update(format="other"), "not a MiniInfer trace"),
        (lambda h, a: h["steps"].reverse(), "damaged"),
        (lambda h, a: h["next"].pop(), "damaged"),
        (lambda h, a: a.update(pattern=a["pattern"][:-1]), "damaged"),
        (lambda h, a: a.update(norms=a["norms"][:1]), "damaged"),
        (lambda h, a: h["run"]["model"].update(num_layers=-1), "num_layers"),
    ],
)
def test_wrong_contents_are_refused(saved, tmp_path, change, sentence):
    out = tmp_path / "changed.npz"
    _rewrite(saved, out, change)
    with pytest.raises((ModelFileError, ValueError), match=sentence):
        load_trace(out)


def test_pickles_are_not_executed(tmp_path):
    path = tmp_path / "evil.npz"
    np.savez(path, pattern=np.array([{}], object), norms=np.zeros(1), probs=np.zeros(1), **{"header.json": np.zeros(1)})
    with pytest.raises(ModelFileError):
        load_trace(path)


def test_a_bomb_is_not_unpacked(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("header.json", "pattern", "norms", "probs"):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                for _ in range(200):
                    member.write(bytes(2**20))
    with pytest.raises(ModelFileError, match="MB"):
        load_trace(path)
