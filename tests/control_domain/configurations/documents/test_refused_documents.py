"""The configuration document, version 2: every rule, with the line on which it is broken."""

import pytest

from control_domain.configurations.documents.read_document import read_configuration
from control_domain.configurations.resources import ConfigurationDocument
from control_domain.documents.faults import DocumentFault, Fault
from tests.support.configuration_texts import (
    deleted,
    domains,
    environment,
    goals,
    heartbeats,
    site,
    variables,
)


def _read(text: str) -> ConfigurationDocument:
    return read_configuration(text, {}, digest=lambda value: value)


_TOP = "unknown; known are version, project, environments, sites, notifications, delete"
_VERSION = "must be 2: a configuration document has no other version"
_QUOTES = "must be text, not {}: write it in quotes"
_SLUG = "a slug has 1 to 60 of a-z, 0-9 and single hyphens, with a letter"
_NAME = "a name has 1 to 100 printable characters, and no blanks around them"
_VARIABLE = "a name has letters, digits and _, no digit first, and at most 255 characters"
_TIME = "times of a window look like 09:00"
_DAY = "must be mon or tue or wed or thu or fri or sat or sun"
_DURATION = "must be a duration, like 90s, 30m, 2h or 1d"
_ADDRESS = (
    "is not an address like environments.staging, environments.production.heartbeats.nightly or "
    'sites["shop.example"].goals.Signup'
)
_NOWHERE = "cannot be the address of a resource: it contains a name that is not valid"
_SETTING = "is a setting, which cannot be deleted: write"
_TYPE = "must be development or staging or production"
_ORIGIN = "is not an origin: write https://shop.example, or https://*.shop.example"
_TRACKER = "is an event of the tracker itself: a goal must be an action of visitors"
_ZONE = "is not a time zone; write a name like Europe/Oslo, or UTC"
_TARGET = "counts either an event or a path: give one of them"

Faults = list[tuple[str, int, str]]


def _of_a(*faults: tuple[str, int, str]) -> Faults:
    """Of the environment `a`."""
    return [(f"environments.a.{path}", line, message) for path, line, message in faults]


def _each(path: str, first: int, *messages: str) -> Faults:
    """Return one fault on each line. `{}` in the path is a letter, from `a` on."""
    return [(path.format(chr(ord("a") + n)), first + n, message) for n, message in enumerate(messages)]


_REFUSED: dict[str, tuple[str, Faults]] = {
    "no version": ("project: {name: a}", [("version", 1, "is missing")]),
    "another version": ("\nversion: 1\nprocesses: {}", [("version", 2, _VERSION)]),
    "unknown keys": (
        "version: 2\nproject: {nam: a}\nenvironment: {}\nfoo: 1\nenvironments:\n  a:\n    replica: 1\n"
        "    approval: {deploy: true}\n    window: {days: [mon], from: 09:00, to: 10:00, zone: UTC}\n"
        "    heartbeats: {h: {crn: x}}\nsites:\n  s:\n    domain: []\n    goals: [{name: a, path: /, pth: /}]", [
            ("project.nam", 2, "unknown; do you mean name?"),
            ("environment", 3, "unknown; do you mean environments?"),
            ("foo", 4, _TOP),
            ("environments.a.replica", 7, "unknown; do you mean replicas?"),
            ("environments.a.approval.deploy", 8, "unknown; do you mean deploys?"),
            ("environments.a.window.zone", 9, "unknown; do you mean timezone?"),
            ("environments.a.heartbeats.h.crn", 10, "unknown; do you mean cron?"),
            ("sites.s.domain", 13, "unknown; do you mean domains?"),
            ("sites.s.goals[0].pth", 14, "unknown; do you mean path?")]),
    "a value that is not a mapping": ("version: 2\nproject: a\nenvironments: []\nsites: 1\ndelete: {}", [
        ("project", 2, "must be a mapping, not text"),
        ("environments", 3, "must be a mapping, not a list"),
        ("sites", 4, "must be a mapping, not a whole number"),
        ("delete", 5, "must be a list, not a mapping")]),
    "a nested value that is not a mapping": (
        environment("window: []", "approval: true", "variables: [A]", "heartbeats: h", "queues: [q]")
        + "sites: {s: [], t: x}", [
            *_of_a(("window", 4, "must be a mapping, not a list"),
                   ("approval", 5, "must be a mapping, not true or false"),
                   ("variables", 6, "must be a mapping, not a list"),
                   ("heartbeats", 7, "must be a mapping, not text"),
                   ("queues", 8, "must be a mapping, not a list")),
            ("sites.s", 9, "must be a mapping, not a list"), ("sites.t", 9, "must be a mapping, not text")]),
    "the project's name": ("version: 2\nproject:\n  name:", [("project.name", 3, _QUOTES.format("nothing"))]),
    "slugs": (
        f"version: 2\nenvironments:\n  Prod: \n  '7': \n  a--b: \n  -a: \n  '': \n  a b: \n  é: \n  {'a' * 61}: \n", [
            (f"environments.{result}", line, _SLUG) for line, result in enumerate(
                ("Prod", "7", "a--b", "-a", "''", "'a b'", "'é'", f"'{'a' * 59}…'"), start=3)]),
    "names": (
        f"version: 2\nenvironments:\n  a: {{name: ''}}\n  b: {{name: {'x' * 101}}}\n  c: {{name: \"a\\nb\"}}\n"
        "  d: {name: ' '}\n  e: {name: \"a\\u202e\"}\n  f: {name: 1}\n  g: {name: [a]}", _each(
            "environments.{}.name", 3, "has 0 characters: 1 to 100 are allowed", "has 101 characters: 1 to 100 "
                "are allowed",
            "holds a line break, which is not allowed here", _NAME, _NAME, _QUOTES.format("a whole number"),
            _QUOTES.format("a list"))),
    "types": (
        "version: 2\nenvironments:\n  a: {type: preview}\n  b: {type: Production}\n  c: {type: }\n  d: {type: 1}",
        _each("environments.{}.type", 3, _TYPE, _TYPE, _TYPE, _TYPE)),
    "orders": (
        "version: 2\nenvironments:\n  a: {order: -1}\n  b: {order: 1001}\n  c: {order: '1'}\n  d: {order: 1.5}\n"
        "  e: {order: true}\n  f: {order: }", _each(
            "environments.{}.order", 3, *["the order is a whole number from 0 to 1000"] * 2,
            *(f"must be a whole number, not {kind}" for kind in ("text", "a number", "true or false", "nothing")))),
    "branches": (
        "version: 2\nenvironments:\n  a: {branch: -x}\n  b: {branch: a b}\n  c: {branch: ''}\n  d: {branch: 1}", _each(
            "environments.{}.branch", 3, *["is not a branch name that Git allows, such as main"] * 2,
            "has 0 characters: 1 to 200 are allowed", _QUOTES.format("a whole number"))),
    "replicas": ("version: 2\nenvironments:\n  a: {replicas: 0}\n  b: {replicas: 21}\n  c: {replicas: '2'}", _each(
        "environments.{}.replicas", 3, "must be 1 to 20", "must be 1 to 20", "must be a whole number, not text")),
    "states and truths": (
        environment("state: asleep", "locked: yes", "wake_on_request: 1", "approval: {deploys: , variables: 'no'}"),
        _of_a(("state", 4, "must be running or hibernated"), ("locked", 5, "must be true or false, not text"),
              ("wake_on_request", 6, "must be true or false, not a whole number"),
              ("approval.deploys", 7, "must be true or false, not nothing"),
              ("approval.variables", 7, "must be true or false, not text"))),
    "an empty window": (environment("window: {}"), _of_a(
        *((f"window.{key}", 4, "is missing") for key in ("days", "from", "to")))),
    "a window": (
        environment("window:", "  days: [mon, Tue, 3]", "  from: 9:00", "  to: '24:00'", "  timezone: Oslo"), _of_a(
            ("window.days[1]", 5, _DAY), ("window.days[2]", 5, _DAY), ("window.from", 6, _TIME),
            ("window.to", 7, _TIME), ("window.timezone", 8, f"'Oslo' {_ZONE}"))),
    "another window": (
        environment("window:", "  days: []", "  from: 900", "  to: ''", "  timezone: localtime"), _of_a(
            ("window.days", 5, "has 0 items: 1 is the least"),
            ("window.from", 6, _QUOTES.format("a whole number")),
            ("window.to", 7, "has 0 characters: 1 to 20 are allowed"),
            ("window.timezone", 8, f"'localtime' {_ZONE}"))),
    "a single day instead of a list": (environment("window: {days: mon, from: 09:00, to: 10:00}"), _of_a(
        ("window.days", 4, "must be a list, not text"))),
    "names of variables": (variables("1A: a", "A-B: a", "'': a", "É: a", f"{'A' * 256}: a"), _of_a(*(
        (f"variables.{result}", line, _VARIABLE)
        for line, result in enumerate(("1A", "A-B", "''", "'É'", f"'{'A' * 59}…'"), start=5)))),
    "values of variables": (
        variables("a: 1", "b: true", "c:", "d: [a]", "e: {}", "f: {keep: false}", "g: {keep: yes}",
                   "h: {keep: true, value: a}", 'i: "\\0"'), [
            *_each("environments.a.variables.{}", 5, *(
                _QUOTES.format(kind) for kind in ("a whole number", "true or false", "nothing", "a list"))),
            *_of_a(("variables.e.keep", 9, "is missing"),
                   ("variables.f.keep", 10,
                    "can only be true: remove the variable from the document, or name it under delete"),
                   ("variables.g.keep", 11, "must be true or false, not text"),
                   ("variables.h.value", 12, "unknown; known are keep"),
                   ("variables.i", 13, "a value cannot contain NUL"))]),
    "too many variables": (environment("variables: {" + ",".join(f"A{n}: ''" for n in range(1001)) + "}"), _of_a(
        ("variables", 4, "has 1,001 variables: the limit is 1,000"))),
    "names of heartbeats and queues": (
        heartbeats("'': {}", "' a': {}", f"{'a' * 101}: {{}}", '"a\\nb": {}')
        + "    queues: {' ': , \"\\u202e\": }", _of_a(*(
            (f"heartbeats.{result}", line, _NAME) for line, result in enumerate(
                ("''", "' a'", f"'{'a' * 59}…'", "'a\\nb'"), start=5)),
            ("queues.' '", 9, _NAME), ("queues.'\\u202e'", 9, _NAME))),
    "cron": (
        heartbeats("a: {cron: '* * * *'}", "b: {cron: '60 * * * *'}", "c: {cron: '0 0 30 2 *'}",
                    "d: {cron: '0 0 */31 * 1#5'}", "e: {cron: 5}", "f: {cron: '@daily'}", "g: {cron: '* * * * * *'}",
                    f"h: {{cron: '{'*' * 201}'}}", "i: {cron: }"), _each(
            "environments.a.heartbeats.{}.cron", 5, "'* * * *' is no cron expression of five fields",
            "'60 * * * *' is no cron expression: Bad minute", "'0 0 30 2 *' is no cron expression: Bad day-of-month",
            "'0 0 */31 * 1#5' never comes", _QUOTES.format("a whole number"),
            "'@daily' is no cron expression of five fields", "'* * * * * *' is no cron expression of five fields",
            "has 201 characters: 1 to 200 are allowed", _QUOTES.format("nothing"))),
    "durations": (
        heartbeats("a: {grace: 90}", "b: {grace: '90'}", "c: {grace: 1h30m}", "d: {grace: 1.5}", "e: {grace: -1s}",
                   "f: {grace: true}", "g: {grace: 1w}", "h: {grace: ' 1h'}", "i: {grace: }", "j: {grace: 367d}"),
        _each("environments.a.heartbeats.{}.grace", 5, *[_DURATION] * 8, _QUOTES.format("nothing"),
            "the grace time is 0 seconds to 366 days")),
    "heartbeats": (
        heartbeats("a: {period: 0s}", "b: {period: 367d}", "c: {max_runtime: 0s}", "d: {failures_before_down: 0}",
                    "e: {failures_before_down: 1001}", "f: {failures_before_down: '1'}", "g: {paused: yes}",
                    "h: {timezone: Mars/Base}", "i: {cron: '* * * * *', period: 1h}", "j: []"), _of_a(
            ("heartbeats.a.period", 5, "a period lasts from 1 second to 366 days"),
            ("heartbeats.b.period", 6, "a period lasts from 1 second to 366 days"),
            ("heartbeats.c.max_runtime", 7, "the longest run time is 1 second to 366 days"),
            ("heartbeats.d.failures_before_down", 8, "the number of failures before down is 1 to 1000"),
            ("heartbeats.e.failures_before_down", 9, "the number of failures before down is 1 to 1000"),
            ("heartbeats.f.failures_before_down", 10, "must be a whole number, not text"),
            ("heartbeats.g.paused", 11, "must be true or false, not text"),
            ("heartbeats.h.timezone", 12, f"'Mars/Base' {_ZONE}"),
            ("heartbeats.i", 13, "has both a cron expression and a period: leave one of them out"),
            ("heartbeats.j", 14, "must be a mapping, not a list"))),
    "queues": (environment("queues:", "  a: {size: 1}", "  b: []", "  c: x"), _of_a(
        ("queues.a.size", 5, "unknown; a queue has no settings: write {}"),
        ("queues.b", 6, "must be a mapping, not a list"), ("queues.c", 7, "must be a mapping, not text"))),
    "names of sites": (f"version: 2\nsites:\n  '': \n  ' a': \n  {'a' * 101}: \n  \"\\u202e\": ", [
        (f"sites.{result}", line, _NAME)
        for line, result in enumerate(("''", "' a'", f"'{'a' * 59}…'", "'\\u202e'"), start=3)]),
    "domains": (
        domains("a.example", "https://A.example:443/", "https://a.example/x", "ftp://a.example", "''", "1", "a b",
                "x" * 301, "ø.example", "xn--pda.example", "'*.a'"), [
            ("sites.s.domains[1]", 6, "is in the list already"),
            ("sites.s.domains[2]", 7, f"'https://a.example/x' {_ORIGIN}"),
            ("sites.s.domains[3]", 8, f"'ftp://a.example' {_ORIGIN}"),
            ("sites.s.domains[4]", 9, "has 0 characters: 1 to 300 are allowed"),
            ("sites.s.domains[5]", 10, _QUOTES.format("a whole number")),
            ("sites.s.domains[6]", 11, f"'a b' {_ORIGIN}"),
            ("sites.s.domains[7]", 12, "has 301 characters: 1 to 300 are allowed"),
            ("sites.s.domains[9]", 14, "is in the list already"),
            ("sites.s.domains[10]", 15, f"'*.a' {_ORIGIN}")]),
    "no domains": (site("domains: []"), [("sites.s.domains", 4, "has 0 items: 1 is the least")]),
    "empty domains": (site("domains:"), [("sites.s.domains", 4, "must be a list, not nothing")]),
    "a domain that is not a list": (site("domains: a.example"), [("sites.s.domains", 4, "must be a list, not text")]),
    "too many domains": (site("domains: [" + ",".join(f"a{n}" for n in range(51)) + "]"), [
        ("sites.s.domains", 4, "has 51 items: the limit is 50")]),
    "a site's zone": (site("timezone: europe/oslo"), [("sites.s.timezone", 4, f"'europe/oslo' {_ZONE}")]),
    "goals": (
        goals("Purchase", "{}", "{name: a}", "{name: b, event: x, path: /}", "{event: x}", "{name: '', path: /}",
               "{name: c, path: /}", "{name: ' c', path: /a}"), [
            ("sites.s.goals[0]", 5, "must be a mapping, not text"),
            ("sites.s.goals[1].name", 6, "is missing"),
            ("sites.s.goals[2]", 7, _TARGET),
            ("sites.s.goals[3]", 8, _TARGET),
            ("sites.s.goals[4].name", 9, "is missing"),
            ("sites.s.goals[5].name", 10, "has 0 characters: 1 to 100 are allowed"),
            ("sites.s.goals[7].name", 12, "is already the name of another goal of the site")]),
    "targets": (
        goals("{name: a, path: welcome}", "{name: b, event: Engagement}", "{name: c, event: Web Vital}",
               f"{{name: d, event: {'e' * 256}}}", f"{{name: e, path: /{'p' * 2048}}}", "{name: f, event: ' '}",
               "{name: g, path: ' '}", "{name: h, path: \"/\\u202e\"}", "{name: i, event: 1}"), [
            (f"sites.s.goals[{n}].{key}", 5 + n, message) for n, (key, message) in enumerate((
                ("path", "a path begins with / and has at most 2048 characters, like /welcome"),
                ("event", f"'Engagement' {_TRACKER}"),
                ("event", f"'Web Vital' {_TRACKER}"),
                ("event", "has 256 characters: 1 to 255 are allowed"),
                ("path", "has 2,049 characters: 1 to 2,048 are allowed"),
                ("event", "is not the name of an event that visitors cause"),
                ("path", "is not a path: a path begins with / and has only printable characters, like /welcome"),
                ("path", "a path begins with / and has at most 2048 characters, like /welcome"),
                ("event", _QUOTES.format("a whole number"))))]),
    "too many goals": (site("goals: [" + ",".join(f"{{name: a{n}, path: /}}" for n in range(101)) + "]"), [
        ("sites.s.goals", 4, "has 101 items: the limit is 100")]),
    "too many environments and sites": (
        "version: 2\n" + "".join(
            f"{key}: {{{','.join(f'a{n}: ' for n in range(101))}}}\n" for key in ("environments", "sites")), [
            ("environments", 2, "has 101 environments: the limit of a document is 100"),
            ("sites", 3, "has 101 sites: the limit of a document is 100")]),
    "too many queues": (environment("queues: {" + ",".join(f"q{n}: " for n in range(1001)) + "}"), [
        ("environments", 2, "has 1,001 queues: the limit of a document is 1,000")]),
    "invalid addresses": (
        deleted("a b", "environments", "environments.b.variables", "sites.s.goals", "sites.s.variables.X",
                "environments..b", "environments.b.window.days", "1", "''", "x" * 1501), [
            *((f"delete[{n}]", 3 + n, _ADDRESS) for n in range(7)),
            ("delete[7]", 10, _QUOTES.format("a whole number")),
            ("delete[8]", 11, "has 0 characters: 1 to 1,500 are allowed"),
            ("delete[9]", 12, "has 1,501 characters: 1 to 1,500 are allowed")]),
    "addresses with invalid names": (
        deleted("environments.B", "'environments[\"\"]'", "environments.b.variables.1X", "'sites[\"a\\nb\"]'",
                 "'sites[\" a\"]'", "'sites[\"\\ud800\"]'", f"sites.s.goals.{'g' * 101}"), [
            (f"delete[{n}]", 3 + n, _NOWHERE) for n in range(7)]),
    "addresses of settings": (
        deleted("project", "project.name", "environments.b.window", "environments.b.replicas",
                 "environments.b.approval.deploys", "environments.b.type", "environments.b.heartbeats.h.grace",
                 "environments.b.heartbeats.h.cron", "'sites[\"a.b\"].timezone'", "sites.s.domains"), [
            (f"delete[{n}]", 3 + n, message) for n, message in enumerate((
                "is the project itself, which a document cannot delete",
                f"{_SETTING} the new value of name",
                f"{_SETTING} its default to reset it, null",
                f"{_SETTING} its default to reset it, 1",
                f"{_SETTING} its default to reset it, false",
                f"{_SETTING} the new value of type",
                f'{_SETTING} its default to reset it, "5m"',
                f"{_SETTING} the new value of cron",
                f'{_SETTING} its default to reset it, "UTC"',
                f"{_SETTING} the new value of domains"))]),
    "an address twice": (
        deleted("environments.b", "'environments[\"b\"]'", "environments.b.queues.q", "environments.b"), [
            ("delete[1]", 4, "is already named on line 3"), ("delete[3]", 6, "is already named on line 3")]),
    "addresses of desired resources": (
        "version: 2\nenvironments:\n  a:\n    variables: {X: '', Y: {keep: true}}\n    heartbeats:\n      h: {}\n"
        "sites:\n  s: {goals: [{name: Sign up, path: /}]}\ndelete:\n- environments.a\n- environments.a.variables.X\n"
        "- environments.a.variables.Y\n- environments.a.variables.Z\n- environments.a.heartbeats.h\n- sites.s\n"
        "- 'sites.s.goals[\"Sign up\"]'\n- sites.s.goals.Other\n", [
            (f"delete[{n}]", 10 + n, f"is also described from line {line} on: remove it there or here")
            for n, line in ((0, 3), (1, 3), (2, 3), (4, 6), (5, 8), (6, 8))]),
    "too many addresses": ("version: 2\ndelete: [" + "sites.a," * 1001 + "]", [
        ("delete", 2, "has 1,001 items: the limit is 1,000")]),
    "a fault of YAML and one of the document": (environment("replicas: 0", "replicas: 5", "branch: !x [1]"), _of_a(
        ("replicas", 4, "must be 1 to 20"), ("replicas", 5, "is given already on line 4"),
        ("branch", 6, "has the tag '!x': only tags of YAML's core schema are allowed; remove it"),
        ("branch", 6, _QUOTES.format("a list")))),
    "a fault is reported once": (environment("replicas: !x 5", "window: !!int x", "variables: {A: !x a}"), _of_a(
        *((path, line, "has the tag '!x': only tags of YAML's core schema are allowed; remove it")
          for path, line in (("replicas", 4),)),
        ("window", 5, "has the tag !!int but is none"),
        ("variables.A", 6, "has the tag '!x': only tags of YAML's core schema are allowed; remove it"))),
}  # fmt: skip


@pytest.mark.parametrize(("text", "faults"), _REFUSED.values(), ids=_REFUSED.keys())
def test_faults_have_their_path_and_line(text: str, faults: Faults) -> None:
    with pytest.raises(DocumentFault) as refused:
        _read(text)
    assert refused.value.faults == tuple(Fault(*fault) for fault in faults)


def test_the_first_twenty_faults_in_order_of_lines() -> None:
    queues = "".join(f"      q{n}: {n}\n" for n in range(30))
    with pytest.raises(DocumentFault) as refused:
        _read(f"sites: 1\nenvironments:\n  a:\n    queues:\n{queues}version: 2\nproject: 1\n")
    assert [fault.line for fault in refused.value.faults] == [1, *range(5, 24)]
