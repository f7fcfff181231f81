"""Bindings: substituted in texts, limited in number, reported if missing, and never repeated in messages."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_domain.configurations.documents.bindings import (
    MOST_BINDINGS,
    MOST_BYTES,
    MOST_CHARACTERS,
    BadBindings,
    Bindings,
)
from control_domain.configurations.documents.read_document import read_configuration
from control_domain.configurations.resources import ConfigurationDocument, Secret
from control_domain.documents.faults import DocumentFault, Fault
from control_domain.documents.strict_yaml import Node, Unreadable, read_yaml


def _put(text: str, bindings: Mapping[str, Any]) -> Node:
    """Return the text with bindings substituted. The bindings must have no fault."""
    faults: list[Fault] = []
    given = Bindings(bindings)
    node = given.substitute(read_yaml(text), faults)
    assert faults == []
    given.check()
    return node


def _read(text: str, bindings: Mapping[str, Any]) -> ConfigurationDocument:
    return read_configuration(text, bindings, digest=lambda value: f"digest of {len(value)}")


def _document_faults(text: str, bindings: Mapping[str, Any]) -> list[str]:
    with pytest.raises(DocumentFault) as refused:
        _read(text, bindings)
    return [str(fault) for fault in refused.value.faults]


def _binding_faults(text: str, bindings: Mapping[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(BadBindings) as refused:
        _read(text, bindings)
    return list(refused.value.faults)


# A text and the result. `a` is "1", `b` is empty, `c` contains the mark of a binding. Each is marked as bound except
# the last.
_FILLED = {
    "${a}": "1",
    "x${a}y": "x1y",
    "${a}${a}-${b}": "11-",
    "${b}": "",
    "${c}": "${a}$${",
    "$${a}${a}": "${a}1",
    "$$${a}": "$${a}",
    "$${${a}": "${1",
    "${a}$": "1$",
    "$${": "${",
}


@pytest.mark.parametrize(("text", "filled"), _FILLED.items())
def test_substitution_in_a_text(text: str, filled: str) -> None:
    given = {"a": "1", "b": "", "c": "${a}$${"}
    used = {name: value for name, value in given.items() if f"${{{name}}}" in text.replace("$${", "")}
    assert _put(f"'{text}'", used) == Node(filled, 1, bound=bool(used))


def test_all_texts_but_no_keys_are_substituted() -> None:
    text = "a: ${x}\n'${x}': [y, {z: 'a ${x}'}]\nb: 1\nc: !!str ${x}\nd: [$x, true, null, '$']\n"
    node = _put(text, {"x": "0"})
    assert node.value == {
        "a": Node("0", 1, bound=True),
        "${x}": Node((Node("y", 2), Node({"z": Node("a 0", 2, bound=True)}, 2)), 2),
        "b": Node(1, 3),
        "c": Node("0", 4, bound=True),
        "d": Node((Node("$x", 5), Node(True, 5), Node(None, 5), Node("$", 5)), 5),
    }


def test_a_binding_always_gives_a_text() -> None:
    put = _put("['${a}', '${b}', '${c}']", {"a": "1", "b": "null", "c": "[x]"})
    assert put.value == (Node("1", 1, True), Node("null", 1, True), Node("[x]", 1, True))
    result = _document_faults("version: 2\nenvironments: {a: {replicas: '${n}'}}", {"n": "3"})
    assert result == [
        "line 2: environments.a.replicas: must be a whole number, not text: a binding can only give text"
    ]


def test_an_escaped_text_can_contain_a_binding() -> None:
    assert _put('"\\x24{a}"', {"a": "1"}) == Node("1", 1, bound=True)


_VALUES = {"a": "${_b}", "_b": "", "C9": "x$"}
# The written text and the result.
_PARTS = {
    "$${": "${",
    "$ ": "$ ",
    "{a}": "{a}",
    "}": "}",
    "\n": "\n",
    **{f"${{{name}}}": value for name, value in _VALUES.items()},
}


@given(st.lists(st.sampled_from(sorted(_PARTS)), max_size=12))
def test_parts_in_any_order(parts: list[str]) -> None:
    faults: list[Fault] = []
    put = Bindings(_VALUES).substitute(Node("".join(parts), 1), faults)
    assert (put.value, faults) == ("".join(_PARTS[part] for part in parts), [])


_MARKS = (
    "${",
    "${}",
    "${ a}",
    "${1}",
    "${a-b}",
    "${a:-b}",
    "${a",
    "${" + "a" * 101 + "}",
    "${é}",
    "a ${a} ${",
)


@pytest.mark.parametrize("text", _MARKS)
def test_texts_that_begin_no_binding(text: str) -> None:
    result = _document_faults(f"version: 2\nproject:\n  name: '{text}'", {"a": "1"})
    assert result == [
        "line 3: project.name: contains a ${ that begins no binding: write a binding as ${name}, and a literal "
        "${ as $${"
    ]


def test_each_faulty_text_is_reported_with_its_path() -> None:
    result = _document_faults(
        "version: 2\nenvironments:\n  a: {name: '${'}\n  b: {name: '${', order: -1}", {}
    )
    why = "contains a ${ that begins no binding: write a binding as ${name}, and a literal ${ as $${"
    assert result == [
        f"line 3: environments.a.name: {why}",
        f"line 4: environments.b.name: {why}",
        "line 4: environments.b.order: the order is a whole number from 0 to 1000",
    ]


_EMPTY = "version: 2\n"
_UNUSED = "is not used in the document: remove it, or use it in a value; keys cannot contain bindings"
_NAME = "a name has letters, digits and _, no digit first, and at most 100 characters"
_WRONG: dict[str, tuple[str, Mapping[str, Any], list[tuple[str, str]]]] = {
    "missing": ("version: 2\nproject:\n  name: ${a} ${b} ${a}\nenvironments: {c: {name: '${b}'}}", {}, [
        ("a", "is missing: line 3 uses it, at project.name"), ("b", "is missing: line 3 uses it, at project.name")]),
    "missing in a list": ("version: 2\nsites:\n  www:\n    domains:\n      - a.example\n      - ${host}", {}, [
        ("host", "is missing: line 6 uses it, at sites.www.domains[1]")]),
    "missing under an alias": ("version: 2\nenvironments:\n  a: &x {name: '${n}'}\n  b: *x", {}, [
        ("n", "is missing: line 3 uses it, at environments.a.name")]),
    "unused": (_EMPTY, {"a": "1", "b": ""}, [("a", _UNUSED), ("b", _UNUSED)]),
    "used in a key alone": ("version: 2\nsites: {'${a}': {}}", {"a": "1"}, [("a", _UNUSED)]),
    "used in an escape alone": ("version: 2\nproject: {name: '$${a}'}", {"a": "1"}, [("a", _UNUSED)]),
    "no texts": ("version: 2\nproject: {name: '${a}${b}${c}${d}${e}'}", {
        "a": 1, "b": None, "c": True, "d": ["x"], "e": {"x": "y"}}, [(name, "must be a text") for name in "abcde"]),
    "a text that is wrong and unused": (_EMPTY, {"a": 1}, [("a", "must be a text")]),
    "names": (_EMPTY, {"": "", "1a": "", "a-b": "", "a b": 1, "é": "", "a" * 101: "", "\x1b": ""}, [
        ("''", _NAME), ("'1a'", _NAME), ("'a-b'", _NAME), ("'a b'", _NAME), ("'é'", _NAME),
        (f"'{'a' * 59}…'", _NAME), ("'\\x1b'", _NAME)]),
    "NUL": (_EMPTY, {"a": "x\0"}, [("a", "contains NUL, which is not allowed")]),
    "half a pair": (_EMPTY, {"a": "x\ud83d"}, [("a", "contains half a surrogate pair, which UTF-8 cannot encode")]),
    "too long": (_EMPTY, {"a": "é" * (MOST_BYTES // 2) + "x"}, [("a", "has more than 131,072 bytes")]),
    "too long together": ("version: 2\nproject: {name: '${a}'}", {"a": "x", **{
        f"b{n}": "é" * (MOST_BYTES // 2) for n in range(2)}}, [
            ("", "have more than 262,144 bytes together"), ("b0", _UNUSED), ("b1", _UNUSED)]),
    "too many": ("version: 2\nproject: {name: '${a0}'}", {f"a{n}": "" for n in range(1001)}, [
        ("", "are 1,001: the limit is 1,000")]),
    "all kinds of faults together": ("version: 2\nproject: {name: '${a}${b}'}", {"c": "", "b": 1, "d e": ""}, [
        ("b", "must be a text"), ("'d e'", _NAME), ("a", "is missing: line 2 uses it, at project.name"),
        ("c", _UNUSED)]),
    "more than are reported": (_EMPTY, {f"a{n}": "" for n in range(60)}, [(f"a{n}", _UNUSED) for n in range(50)]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "bindings", "faults"), _WRONG.values(), ids=_WRONG.keys())
def test_invalid_missing_and_unused_bindings(
    text: str, bindings: Mapping[str, Any], faults: list[tuple[str, str]]
) -> None:
    assert _binding_faults(text, bindings) == faults


def test_the_most_and_longest_bindings() -> None:
    names = [f"b{n}" for n in range(MOST_BINDINGS)]
    marks = "".join(f"${{{name}}}" for name in names)
    document = _read(
        f"version: 2\nenvironments: {{a: {{variables: {{V: '{marks}'}}}}}}", dict.fromkeys(names, "x")
    )
    assert document.resources[0].fields == {"variables.V": Secret("digest of 1000")}
    longest = {"a": "x" * (MOST_BYTES - 4), "b": "x" * MOST_BYTES}
    text = "version: 2\nenvironments: {a: {variables: {V: '${a}', W: '${b}'}}}"
    assert _document_faults(text, longest) == [
        "line 2: environments.a.variables.W: name, = and value together have more than 131071 bytes"
    ]


# The maximum number of characters, with 99,999 in `a` and 8 in `b`. A list has no separate limit.
_MILLION = read_yaml("[" + "'${a}', " * 10 + "'${b}$${']")


def test_texts_of_a_million_characters() -> None:
    put = Bindings({"a": "x" * 99_999, "b": "x" * 8}).substitute(_MILLION, [])
    assert isinstance(put.value, tuple)
    assert sum(len(str(item.value)) for item in put.value) == MOST_CHARACTERS == 1_000_000


def test_a_longer_text_is_not_built() -> None:
    earlier = Fault("x", 1, "is wrong as well")
    with pytest.raises(DocumentFault) as refused:
        Bindings({"a": "x" * 99_999, "b": "x" * 9}).substitute(_MILLION, [earlier])
    message = "with bindings, the texts up to here have more than 1,000,000 characters"
    assert refused.value.faults == (earlier, Fault("[10]", 1, message))


def test_faulty_bindings_are_not_faults_of_the_document() -> None:
    faults: list[Fault] = []
    put = Bindings({"b": 1}).substitute(read_yaml("['${a}', 'x', '${b}']"), faults)
    assert put.value == (Node(Unreadable.VALUE, 1), Node("x", 1), Node(Unreadable.VALUE, 1))
    assert faults == []


@pytest.mark.parametrize("text", ["version: '${a}'", "'${a}'", "version: 2\nproject: '${a}'\ndelete: '${a}'"])
def test_a_missing_binding_causes_no_further_faults(text: str) -> None:
    assert [name for name, _ in _binding_faults(text, {})] == ["a"]


def test_faults_of_the_document_come_first() -> None:
    bindings = {"unused": "", "wrong": 1}
    result = _document_faults("version: 2\nproject: {nane: '${missing}'}", bindings)
    assert result == ["line 2: project.nane: unknown; do you mean name?"]
    assert len(_binding_faults("version: 2\nproject: {name: '${missing}'}", bindings)) == 3


_FIELDS = {
    "project.name": "version: 2\nproject: {name: '${a}'}",
    **{f"environments.e.{field}": f"version: 2\nenvironments: {{e: {{{field}: '${{a}}'}}}}" for field in (
        "name", "type", "order", "branch", "replicas", "state", "locked", "window", "approval", "wake_on_request",
        "variables", "heartbeats", "queues")},
    "environments.e.window.days[0]":
        "version: 2\nenvironments: {e: {window: {days: ['${a}'], from: '09:00', to: '10:00'}}}",
    "environments.e.window.from":
        "version: 2\nenvironments: {e: {window: {days: [mon], from: '${a}', to: '10:00'}}}",
    "environments.e.window.timezone":
        "version: 2\nenvironments: {e: {window: {days: [mon], from: '09:00', to: '10:00', timezone: '${a}'}}}",
    "environments.e.approval.deploys": "version: 2\nenvironments: {e: {approval: {deploys: '${a}'}}}",
    "environments.e.variables.V.keep": "version: 2\nenvironments: {e: {variables: {V: {keep: '${a}'}}}}",
    **{f"environments.e.heartbeats.h.{field}":
       f"version: 2\nenvironments: {{e: {{heartbeats: {{h: {{{field}: '${{a}}'}}}}}}}}"
       for field in (
           "cron", "period", "timezone", "grace", "max_runtime", "failures_before_down", "paused")},
    "environments.e.queues.q": "version: 2\nenvironments: {e: {queues: {q: '${a}'}}}",
    "sites.s.domains": "version: 2\nsites: {s: {domains: '${a}'}}",
    "sites.s.domains[0]": "version: 2\nsites: {s: {domains: ['${a}']}}",
    "sites.s.timezone": "version: 2\nsites: {s: {timezone: '${a}'}}",
    "sites.s.goals[0].name": "version: 2\nsites: {s: {goals: [{name: '${a}', path: /}]}}",
    "sites.s.goals[0].event": "version: 2\nsites: {s: {goals: [{name: g, event: '${a}'}]}}",
    "sites.s.goals[0].path": "version: 2\nsites: {s: {goals: [{name: g, path: '${a}'}]}}",
    "delete": "version: 2\ndelete: '${a}'",
    "delete[0]": "version: 2\ndelete: ['${a}']",
    "version": "version: '${a}'",
}  # fmt: skip
# Fields that accept nearly any text.
_TAKE_MANY = (
    "project.name",
    "environments.e.name",
    "environments.e.branch",
    "sites.s.domains[0]",
    "sites.s.goals[0].event",
)


@pytest.mark.parametrize(
    "value", ["hunter\u202e2", "hunter\n2", "hunter2" * 10_000, "-hunter 2 /", " hunter"]
)
@pytest.mark.parametrize(("path", "text"), _FIELDS.items())
def test_no_message_repeats_a_bindings_value(path: str, text: str, value: str) -> None:
    try:
        _read(text, {"a": value})
    except DocumentFault as error:
        assert [fault.path for fault in error.faults] == [path]
        assert "hunter" not in str(error) and "202E" not in str(error)
    else:
        assert path in _TAKE_MANY


def test_fields_with_a_bindings_value_are_marked_as_bound() -> None:
    text = """\
version: 2
project: {name: "My ${a}"}
environments:
  e:
    name: plain
    branch: ${branch}
    window: {days: [mon, "${day}"], from: "09:00", to: "10:00"}
    variables: {A: "${a}", B: b, C: {keep: true}, D: "$${"}
    heartbeats: {h: {cron: "0 ${hour} * * *", timezone: UTC}, i: {grace: "${n}m", period: 1h}}
sites:
  s: {domains: [a.example, "${host}"], goals: [{name: g, event: "${a}"}, {name: h, path: /}], timezone: "${zone}"}
"""
    document = _read(
        text,
        {
            "a": "x",
            "branch": "main",
            "day": "tue",
            "hour": "3",
            "n": "60",
            "host": "b.example",
            "zone": "UTC",
        },
    )
    assert [sorted(one.bound) for one in document.resources] == [
        ["name"],
        ["branch", "variables.A", "window"],
        ["cron"],
        ["grace"],
        ["domains", "goals.g", "timezone"],
    ]
    assert [dict(one.fields) for one in document.resources[2:4]] == [
        {"cron": "0 3 * * *", "period": None, "timezone": "UTC"},
        {"cron": None, "period": "1h", "grace": "1h"},
    ]
    assert document.resources[4].fields["domains"] == ["https://a.example", "https://b.example"]
