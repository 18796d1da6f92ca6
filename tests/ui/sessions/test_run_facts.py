"""Names of runs: one short line, whatever a stranger put into a prompt."""

import pytest

from miniinfer.ui.sessions.run_facts import short_name


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("  The capital\n\tof   France ", "The capital of France"),
        ("abc\u202edef\u2066g\u200f", "abcdefg"),
        ("\0\x1b[31mred\x07\ud800", "[31mred"),
        ("مرحبا بالعالم", "مرحبا بالعالم"),
        ("👩\u200d💻 codes", "👩\u200d💻 codes"),
        ("x" * 100_000, "x" * 39 + "…"),
        ("\n" * 100_000, ""),
        ("<b>**bold** $x$ :material/home:", "<b>**bold** $x$ :material/home:"),
    ],
)
def test_a_name_is_one_short_line(prompt: str, name: str) -> None:
    assert short_name(prompt) == name
