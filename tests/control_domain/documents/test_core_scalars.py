"""The values of scalars in YAML 1.2's core schema."""

import math

import pytest

from control_domain.documents.core_scalars import BadScalar, Scalar, read_scalar

_TAG = "tag:yaml.org,2002:"
_PLAIN: dict[str, Scalar] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None, "nUll": "nUll",
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    "yes": "yes", "no": "no", "on": "on", "Off": "Off", "y": "y", "tRue": "tRue",
    "0": 0, "-0": 0, "12": 12, "+12": 12, "-12": -12, "017": 17, "0o17": 15, "0x1F": 31, "0xff": 255,
    "0O17": "0O17", "0o8": "0o8", "0xg": "0xg", "-0x1": "-0x1", "0b1": "0b1", "1_000": "1_000", "1,0": "1,0",
    "3:30": "3:30", "190:20:30": "190:20:30", "2026-01-01": "2026-01-01", "2026-01-01T00:00Z": "2026-01-01T00:00Z",
    "1.5": 1.5, ".5": 0.5, "5.": 5.0, "-1e3": -1000.0, "1E-2": 0.01, "1e3": 1000.0, "1.2.3": "1.2.3", "e3": "e3",
    ".": ".", "-": "-", "+": "+", "1e": "1e", "1.0.0": "1.0.0", "=": "=", "٣": "٣",
    ".inf": math.inf, "-.Inf": -math.inf, "+.INF": math.inf, "inf": "inf", "nan": "nan", ".nAn": ".nAn",
    "9223372036854775807": 2**63 - 1, "-9223372036854775808": -(2**63), "a b": "a b", "1 ": "1 ", "1\n": "1\n",
}  # fmt: skip


@pytest.mark.parametrize(("text", "value"), _PLAIN.items(), ids=repr)
def test_plain_scalars_follow_the_core_schema(text: str, value: Scalar) -> None:
    read = read_scalar(text, None, plain=True)
    assert (read, type(read)) == (value, type(value))
    assert read_scalar(text, None, plain=False) == text


@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN"])
def test_these_scalars_are_not_numbers(text: str) -> None:
    assert math.isnan(read_scalar(text, None, plain=True))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tag", "text", "value"),
    [
        ("str", "12", "12"),
        ("int", "12", 12),
        ("float", "12", 12.0),
        ("bool", "true", True),
        ("null", "", None),
    ],
)
def test_tags_of_the_core_schema_apply(tag: str, text: str, value: Scalar) -> None:
    for plain in (True, False):
        read = read_scalar(text, f"{_TAG}{tag}", plain)
        assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("tag", "text", "told"),
    [
        (None, "9223372036854775808", "does not fit into 64 bits"),
        (None, "0x" + "f" * 50_000, "does not fit into 64 bits"),
        (None, "9" * 50_000, "does not fit into 64 bits"),
        (f"{_TAG}int", "1.5", "has the tag !!int but is none"),
        (f"{_TAG}bool", "yes", "has the tag !!bool but is none"),
        (f"{_TAG}timestamp", "2026-01-01", "has the tag '!!timestamp'"),
        (f"{_TAG}binary", "aGk=", "has the tag '!!binary'"),
        (f"{_TAG}python/name:os.system", "", "has the tag '!!python/name:os.system'"),
        (f"{_TAG}map", "", "has the tag '!!map'"),
        ("!foo", "1", "has the tag '!foo'"),
        ("!", "1", "has the tag '!'"),
        ("!\x1b" + "o" * 500, "1", "has the tag '!\\x1boooo"),
    ],
    ids=range(12),
)
def test_other_tags_and_values_are_refused(tag: str | None, text: str, told: str) -> None:
    with pytest.raises(BadScalar) as refused:
        read_scalar(text, tag, plain=True)
    assert told in str(refused.value) and len(str(refused.value)) < 200
