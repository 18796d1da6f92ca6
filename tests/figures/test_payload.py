import json
import struct

import numpy as np
import pytest

from miniinfer.figures.payload import pack, unpack


def test_round_trip_keeps_header_and_arrays():
    header = {"text": "東京 🙂 </script>", "n": 3}
    blobs = {"a": np.arange(5, dtype=np.uint8), "b": np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)}
    found, arrays = unpack(pack(header, blobs))
    assert found == header
    assert set(arrays) == {"a", "b"}
    for name, array in blobs.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype


def test_layout_is_what_the_browser_reads():
    message = pack({"v": 1}, {"odd": np.arange(3, dtype=np.uint8), "f": np.ones(1, np.float32)})
    (length,) = struct.unpack_from("<I", message)
    index = json.loads(message[4 : 4 + length])["blobs"]
    assert length % 4 == 0, "typed arrays need offsets that are multiples of 4"
    assert index["odd"] == [0, 3, "u8", [3]]
    assert index["f"] == [4, 4, "f32", [1]]
    assert message[4 + length + 4 :] == struct.pack("<f", 1.0)


def test_other_types_are_refused():
    with pytest.raises(ValueError, match="float64"):
        pack({}, {"x": np.zeros(2)})


def test_not_a_number_in_the_header_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        pack({"x": float("nan")}, {})
