"""Texts that are written to exhaust whoever reads them."""

import tracemalloc

import pytest

from control_api.workflows.faults import DocumentFault
from control_api.workflows.read_workflow import read_workflow
from control_api.workflows.strict_yaml import LONGEST_TEXT

# Each takes a fraction of a second. What grows with the square of the text, or worse, would take minutes.
pytestmark = pytest.mark.timeout(60)

_MOST_BYTES = 64 * 1024 * 1024


def _doubling(levels: int, item: str = "[*{0},*{0}]") -> str:
    return "x0: &x0 [a,a]\n" + "".join(f"x{n}: &x{n} {item.format(f'x{n - 1}')}\n" for n in range(1, levels))


_HALF = LONGEST_TEXT // 2
_HOSTILE = {
    "brackets": "[" * LONGEST_TEXT,
    "closed brackets": "[" * _HALF + "]" * _HALF,
    "brackets beside each other": "[[1]," * (LONGEST_TEXT // 5),
    "braces": "{a: " * (LONGEST_TEXT // 4),
    "braces as keys": "{? " * (LONGEST_TEXT // 3),
    "dashes": "- " * _HALF,
    "question marks": "? " * _HALF,
    "keys of keys": "? " * (LONGEST_TEXT // 4) + ": " * (LONGEST_TEXT // 4),
    "billion laughs": _doubling(30),
    "thousands of doublings": _doubling(1500),
    "laughs in mappings": _doubling(30, "{{a: *{0}, b: *{0}}}"),
    "a large list often": "x: &x [" + "a," * 5000 + "]\ny: [" + "*x," * 5000 + "]",
    "a tall tower": "".join(f"x{n}: &x{n} [" + (f"*x{n - 1}" if n else "") + "]\n" for n in range(2000)),
    "aliases to itself": "a: &a [" + "*a," * (LONGEST_TEXT // 4) + "]",
    "anchors": "[" + "&a a," * 9000 + "]",
    "unknown keys": "".join(f"key{n}: 1\n" for n in range(4500)),
    "keys that are no text": "".join(f"{n}: 1\n" for n in range(6000)),
    "one key": "a: 1\n" * (LONGEST_TEXT // 5),
    "one key in braces": "{" + '"a":,' * 9000 + "}",
    "processes": "version: 1\nprocesses:\n" + "".join(f" p{n}: 1\n" for n in range(4500)),
    "branches": "version: 1\ntriggers:\n push:\n" + "".join(f"  b{n}: 1\n" for n in range(4500)),
    "steps": "version: 1\nbuild: {steps: [" + "1," * 24_000 + "]}",
    "a long number": "version: " + "9" * 49_000,
    "a long fraction": "version: 0." + "0" * 49_000 + "x",
    "a long key": "? " + "a" * 49_000 + "\n: 1",
    "a long tag": "!" * LONGEST_TEXT,
    "a long anchor": "a: *" + "a" * 49_000,
    "a long directive": "%" + "a" * 49_000,
    "quotes": "'" * LONGEST_TEXT,
    "escapes": '"' + "\\x41" * 12_000 + '"',
    "block of blanks": "a: |\n" + " \n" * 20_000,
    "line ends": "\n" * LONGEST_TEXT,
    "documents": "---\n" * 10_000,
    "pairs": "[" + "a: b," * 9900 + "]",
    "empty items": "-\n" * _HALF,
}


@pytest.mark.parametrize("text", _HOSTILE.values(), ids=_HOSTILE.keys())
def test_it_is_refused_in_little_memory(text: str) -> None:
    assert len(text) <= LONGEST_TEXT
    with pytest.raises(DocumentFault) as refused:
        read_workflow(text)
    assert 1 <= len(refused.value.faults) <= 20
    assert len(str(refused.value)) < 10_000
    tracemalloc.start()
    try:
        with pytest.raises(DocumentFault):
            read_workflow(text)
        assert tracemalloc.get_traced_memory()[1] < _MOST_BYTES
    finally:
        tracemalloc.stop()


def test_much_more_is_not_even_looked_at() -> None:
    text = "[" * 50_000_000
    with pytest.raises(DocumentFault, match="has more than 50,000 characters"):
        read_workflow(text)
