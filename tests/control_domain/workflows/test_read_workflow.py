"""The workflow document, version 1: every rule, with the line on which it is broken."""

import pytest

from control_domain.documents.faults import DocumentFault, Fault
from control_domain.workflows.document import Health, Process, PullRequests, Steps, Triggers, WorkflowDocument
from control_domain.workflows.read_workflow import read_workflow

CONTRACT = """\
version: 1
build: {steps: ["pip install -r requirements.txt -t vendor"], timeout_seconds: 900}
release: {steps: ["python manage.py migrate"]}
processes:
  web: {command: "python app.py", health: {path: /healthz, timeout_seconds: 60}}   # gets PORT
  worker: {command: "python worker.py", replicas: 1}
triggers:
  push: {main: production, develop: staging}          # branch: environment slug
  pull_requests: {from: staging, close: destroy}
  skip: "[skip deploy]"
retain: 5
"""


def test_the_example_of_the_contract() -> None:
    assert read_workflow(CONTRACT) == WorkflowDocument(
        build=Steps(("pip install -r requirements.txt -t vendor",), 900),
        release=Steps(("python manage.py migrate",), 900),
        processes={
            "web": Process("web", "python app.py", health=Health("/healthz", 60)),
            "worker": Process("worker", "python worker.py", replicas=1),
        },
        triggers=Triggers(
            push={"main": "production", "develop": "staging"},
            pull_requests=PullRequests("staging", "destroy"),
            skip="[skip deploy]",
        ),
        retain=5,
    )


def test_omitted_keys_have_defaults() -> None:
    document = read_workflow("version: 1\nprocesses: {web: {command: serve, health: {path: /}}}")
    assert document == WorkflowDocument(
        build=Steps((), 900),
        release=Steps((), 900),
        processes={"web": Process("web", "serve", 1, Health("/", 60))},
        triggers=Triggers({}, None, None),
        retain=5,
    )
    text = "version: 1\nprocesses: {a: {command: x}}\nbuild: {}\nrelease: {steps: []}\n"
    document = read_workflow(f"{text}triggers: {{pull_requests: {{from: main-1}}}}")
    assert (document.build, document.release) == (Steps(), Steps())
    assert document.triggers.pull_requests == PullRequests("main-1", "destroy")
    assert read_workflow(f"{text}triggers: {{}}").triggers == Triggers({})


_HEAD = "version: 1\nprocesses: {web: {command: serve}}\n"
"""Two valid lines, which more lines may follow."""

_TAKEN = {
    "the longest command": f"version: 1\nprocesses: {{a: {{command: {'x' * 4096}}}}}",
    "a tab in a command": 'version: 1\nprocesses: {a: {command: "a\\tb"}}',
    "the longest name": f"version: 1\nprocesses: {{{'a' * 30}: {{command: x}}}}",
    "the most processes": "version: 1\nprocesses:\n" + "".join(f"  p{n}: {{command: x}}\n" for n in range(20)),
    "the most replicas": "version: 1\nprocesses: {a: {command: x, replicas: 20}}",
    "the most steps": f"{_HEAD}build: {{steps: [{'x,' * 50}]}}",
    "a step of several lines": f"{_HEAD}build:\n  steps:\n    - |\n      set -e\n      make\n",
    "the longest time for steps": f"{_HEAD}release: {{timeout_seconds: 7200}}",
    "the longest time for health":
        "version: 1\nprocesses: {web: {command: x, health: {path: /?a=b, timeout_seconds: 3600}}}",
    "the most releases": f"{_HEAD}retain: 50",
    "branches": f"{_HEAD}triggers: {{push: {{feature/x.y: a, 'v1.0': b, 'ø': c}}}}",
    "the longest slug": f"{_HEAD}triggers: {{push: {{main: {'a' * 60}}}}}",
    "values that the core schema reads as text": f"{_HEAD}triggers: {{push: {{yes: no}}, skip: 3:30}}",
    "an alias": "version: 1\nprocesses: {a: &a {command: x}, b: *a}",
}  # fmt: skip


@pytest.mark.parametrize("text", _TAKEN.values(), ids=_TAKEN.keys())
def test_accepted_values(text: str) -> None:
    read_workflow(text)


_TOP = "unknown; known are version, build, release, processes, triggers, retain"
_NAME = "the name of a process has 1 to 30 of a-z, 0-9 and hyphens, and begins with a letter"
_SLUG = "must be the slug of an environment: a-z, 0-9 and single hyphens, with a letter"
_PATH = "must begin with / and contain only ASCII characters, without blanks and #"
_VERSION = "must be 1: a workflow document has no other version"
_QUOTES = "must be text, not {}: write it in quotes"

Faults = list[tuple[str, int, str]]


def _health(value: str) -> str:
    return f"version: 1\nprocesses:\n  web:\n    command: x\n    health:\n      path: {value}\n"


_REFUSED: dict[str, tuple[str, Faults]] = {
    "no mapping": ("- 1", [("", 1, "must be a mapping, not a list")]),
    "a text": ("hello", [("", 1, "must be a mapping, not text")]),
    "null": ("~", [("", 1, "must be a mapping, not nothing")]),
    "an empty mapping": ("\n{}", [("version", 2, "is missing"), ("processes", 2, "is missing")]),
    "no version": ("processes: {a: {command: x}}", [("version", 1, "is missing")]),
    "another version": ("\nversion: 2\nproject: {}", [("version", 2, _VERSION)]),
    "a version as text": ("version: '1'\nfoo: 1", [("version", 1, _VERSION)]),
    "a truth as version": ("version: true", [("version", 1, _VERSION)]),
    "a fraction as version": ("version: 1.0", [("version", 1, _VERSION)]),
    "a version with a tag": ("version: !v 1", [
        ("version", 1, "has the tag '!v': only tags of YAML's core schema are allowed; remove it")]),
    "unknown keys": (f"{_HEAD}\nfoo: 1\nbuilds: 1\nBuild: 1", [
        ("foo", 4, _TOP), ("builds", 5, "unknown; do you mean build?"), ("Build", 6, "unknown; do you mean build?")]),
    "unknown keys within": (
        "version: 1\nbuild: {stpes: [],\n timeout: 3}\nprocesses:\n  web:\n    command: x\n    comand: x\n"
        "    health: {path: /, pth: 1}\ntriggers:\n  pull-requests: {}\n  pull_requests: {from: a, form: b}", [
            ("build.stpes", 2, "unknown; do you mean steps?"),
            ("build.timeout", 3, "unknown; do you mean timeout_seconds?"),
            ("processes.web.comand", 7, "unknown; do you mean command?"),
            ("processes.web.health.pth", 8, "unknown; do you mean path?"),
            ("triggers.pull-requests", 10, "unknown; do you mean pull_requests?"),
            ("triggers.pull_requests.form", 11, "unknown; do you mean from?")]),
    "an unknown key that acts": (f'{_HEAD}"\\e[31m\\n": 1', [("'\\x1b[31m\\n'", 3, _TOP)]),
    "no processes": ("version: 1\nprocesses: {}", [("processes", 2, "has 0 processes: 1 to 20 are allowed")]),
    "empty processes": ("version: 1\nprocesses:", [("processes", 2, "must be a mapping, not nothing")]),
    "too many processes": ("version: 1\nprocesses:\n" + "".join(f"  p{n}: {{}}\n" for n in range(21)), [
        ("processes", 2, "has 21 processes: 1 to 20 are allowed")]),
    "names of processes": (
        "version: 1\nprocesses:\n  Web: {command: x}\n  1a: {command: x}\n  -a: {command: x}\n  a_b: {command: x}\n"
        f"  {'a' * 31}: {{command: x}}\n  '': {{command: x}}\n  a-: {{command: x}}\n", [
            (f"processes.{told}", line, _NAME)
            for line, told in enumerate(("Web", "1a", "-a", "'a_b'"[1:-1], "a" * 31, "''"), start=3)]),
    "a command instead of a process": ("version: 1\nprocesses: {web: serve}", [
        ("processes.web", 2, "must be a mapping, not text")]),
    "no command": ("version: 1\nprocesses:\n  web:\n    {}\n  a: {replicas: 1}", [
        ("processes.web.command", 3, "is missing"), ("processes.a.command", 5, "is missing")]),
    "commands": (
        "version: 1\nprocesses:\n  a: {command: ''}\n  b: {command: 1}\n  c: {command: [x, y]}\n"
        "  d: {command: \"a\\nb\"}\n  e: {command: \"a\\0b\"}\n  f:\n    command: |\n      a\n  g: {command: true}\n"
        f"  h: {{command: {'x' * 4097}}}\n  i: {{command: }}\n  j: {{command: {{}}}}\n  k: {{command: 1.5}}", [
            ("processes.a.command", 3, "has 0 characters: 1 to 4,096 are allowed"),
            ("processes.b.command", 4, _QUOTES.format("a whole number")),
            ("processes.c.command", 5, _QUOTES.format("a list")),
            ("processes.d.command", 6, "holds a line break, which is not allowed here"),
            ("processes.e.command", 7, "holds the character U+0000, which is not allowed here"),
            ("processes.f.command", 9, "holds a line break, which is not allowed here"),
            ("processes.g.command", 11, _QUOTES.format("true or false")),
            ("processes.h.command", 12, "has 4,097 characters: 1 to 4,096 are allowed"),
            ("processes.i.command", 13, _QUOTES.format("nothing")),
            ("processes.j.command", 14, "must be text, not a mapping"),
            ("processes.k.command", 15, _QUOTES.format("a number"))]),
    "replicas": (
        "version: 1\nprocesses:\n  a: {command: x, replicas: 0}\n  b: {command: x, replicas: 21}\n"
        "  c: {command: x, replicas: '2'}\n  d: {command: x, replicas: true}\n  e: {command: x, replicas: 2.0}\n", [
            ("processes.a.replicas", 3, "must be 1 to 20"),
            ("processes.b.replicas", 4, "must be 1 to 20"),
            ("processes.c.replicas", 5, "must be a whole number, not text"),
            ("processes.d.replicas", 6, "must be a whole number, not true or false"),
            ("processes.e.replicas", 7, "must be a whole number, not a number")]),
    "replicas of web": ("version: 1\nprocesses:\n  web:\n    command: x\n    replicas: 2", [
        ("processes.web.replicas", 5, "the environment sets the number of replicas of web: remove this key")]),
    "health of another process": ("version: 1\nprocesses:\n  a:\n    command: x\n    health: {path: /}", [
        ("processes.a.health", 5, "only web can have a health check, because only web serves "
            "requests: remove this key")]),
    "health without path": ("version: 1\nprocesses:\n  web:\n    command: x\n    health: {timeout_seconds: 1}", [
        ("processes.web.health.path", 5, "is missing")]),
    "a path instead of health": ("version: 1\nprocesses: {web: {command: x, health: /up}}", [
        ("processes.web.health", 2, "must be a mapping, not text")]),
    **{f"the path {value}": (_health(value), [("processes.web.health.path", 6, _PATH)])
       for value in ("up", "https://x/", "/a b", "/a#b", "/ø")},
    "a path with a line break": (_health('"/a\\r\\nb"'), [
        ("processes.web.health.path", 6, "holds a line break, which is not allowed here")]),
    "a path too long": (_health("/" + "a" * 2000), [
        ("processes.web.health.path", 6, "has 2,001 characters: 1 to 2,000 are allowed")]),
    "times of health": (_health("/") + "      timeout_seconds: 3601", [
        ("processes.web.health.timeout_seconds", 7, "must be 1 to 3,600")]),
    "times of steps": (f"{_HEAD}build: {{timeout_seconds: 0}}\nrelease: {{timeout_seconds: 7201}}", [
        ("build.timeout_seconds", 3, "must be 1 to 7,200"), ("release.timeout_seconds", 4, "must be 1 to 7,200")]),
    "a time with its unit": (f"{_HEAD}build: {{timeout_seconds: 15m}}", [
        ("build.timeout_seconds", 3, "must be a whole number, not text")]),
    "steps": (
        f"{_HEAD}build:\n  steps:\n    - ok\n    - ''\n    - 12\n    - a: b\n    - \"a\\0\"\n"
        f"    - {'x' * 4097}\n    - [a]\n    -\n", [
            ("build.steps[1]", 6, "has 0 characters: 1 to 4,096 are allowed"),
            ("build.steps[2]", 7, _QUOTES.format("a whole number")),
            ("build.steps[3]", 8, "must be text, not a mapping"),
            ("build.steps[4]", 9, "holds the character U+0000, which is not allowed here"),
            ("build.steps[5]", 10, "has 4,097 characters: 1 to 4,096 are allowed"),
            ("build.steps[6]", 11, _QUOTES.format("a list")),
            ("build.steps[7]", 12, _QUOTES.format("nothing"))]),
    "too many steps": (f"{_HEAD}build: {{steps: [{'x,' * 51}]}}", [
        ("build.steps", 3, "has 51 items: the limit is 50")]),
    "a single step instead of a list": (f"{_HEAD}build: {{steps: make}}\nrelease: [migrate]", [
        ("build.steps", 3, "must be a list, not text"), ("release", 4, "must be a mapping, not a list")]),
    "branches": (f"{_HEAD}triggers:\n  push:\n    -x: a\n    a b: a\n    a..b: a\n    '': a\n    {'x' * 201}: a\n", [
        ("triggers.push.-x", 5, "'-x' is not a branch name that Git allows"),
        ("triggers.push.'a b'", 6, "'a b' is not a branch name that Git allows"),
        ("triggers.push.a..b", 7, "'a..b' is not a branch name that Git allows"),
        ("triggers.push.''", 8, "'' is not a branch name that Git allows"),
        (f"triggers.push.'{'x' * 59}…'", 9, f"'{'x' * 59}…' is not a branch name that Git allows")]),
    "slugs": (
        f"{_HEAD}triggers:\n  push:\n    a: Prod\n    b: 7\n    c: '7'\n    d: a--b\n    e: ''\n    f: ' a'\n"
        f"    g: {'a' * 61}\n  pull_requests: {{from: A}}\n", [
            ("triggers.push.a", 5, _SLUG),
            ("triggers.push.b", 6, _QUOTES.format("a whole number")),
            ("triggers.push.c", 7, _SLUG),
            ("triggers.push.d", 8, _SLUG),
            ("triggers.push.e", 9, "has 0 characters: 1 to 60 are allowed"),
            ("triggers.push.f", 10, _SLUG),
            ("triggers.push.g", 11, "has 61 characters: 1 to 60 are allowed"),
            ("triggers.pull_requests.from", 12, _SLUG)]),
    "pushes as a list": (f"{_HEAD}triggers: {{push: [main]}}", [
        ("triggers.push", 3, "must be a mapping, not a list")]),
    "pull requests": (f"{_HEAD}triggers:\n  pull_requests:\n    close: remove", [
        ("triggers.pull_requests.from", 4, "is missing"),
        ("triggers.pull_requests.close", 5, "must be destroy or keep")]),
    "how they are closed": (f"{_HEAD}triggers: {{pull_requests: {{from: a, close: true}}}}", [
        ("triggers.pull_requests.close", 3, "must be destroy or keep")]),
    "triggers": (f"{_HEAD}triggers: main", [("triggers", 3, "must be a mapping, not text")]),
    "skip marks": (f"{_HEAD}triggers: {{skip: [skip deploy]}}", [
        ("triggers.skip", 3, _QUOTES.format("a list"))]),
    "nothing skips": (f"{_HEAD}triggers: {{skip: ''}}", [
        ("triggers.skip", 3, "has 0 characters: 1 to 100 are allowed")]),
    "a long text skips": (f"{_HEAD}triggers: {{skip: {'x' * 101}}}", [
        ("triggers.skip", 3, "has 101 characters: 1 to 100 are allowed")]),
    "lines skip": (f"{_HEAD}triggers: {{skip: \"a\\nb\"}}", [
        ("triggers.skip", 3, "holds a line break, which is not allowed here")]),
    "releases": (f"{_HEAD}retain: 0", [("retain", 3, "must be 1 to 50")]),
    "too many releases": (f"{_HEAD}retain: 51", [("retain", 3, "must be 1 to 50")]),
    "all releases": (f"{_HEAD}retain: all", [("retain", 3, "must be a whole number, not text")]),
    "a fault of YAML and one of the document": (f"{_HEAD}retain: 0\nretain: 5\nbuild: {{steps: !x [1]}}", [
        ("retain", 3, "must be 1 to 50"),
        ("retain", 4, "is given already on line 3"),
        ("build.steps", 5, "has the tag '!x': only tags of YAML's core schema are allowed; remove it"),
        ("build.steps[0]", 5, _QUOTES.format("a whole number"))]),
    "a fault is reported once": (f"{_HEAD}retain: !x 5\nbuild: {{steps: [!x a], timeout_seconds: !!int x}}", [
        ("retain", 3, "has the tag '!x': only tags of YAML's core schema are allowed; remove it"),
        ("build.steps[0]", 4, "has the tag '!x': only tags of YAML's core schema are allowed; remove it"),
        ("build.timeout_seconds", 4, "has the tag !!int but is none")]),
    "a fault under an alias": ("version: 1\nprocesses:\n  a: &a {command: 1}\n  b: *a\n", [
        ("processes.a.command", 3, _QUOTES.format("a whole number")),
        ("processes.b.command", 3, _QUOTES.format("a whole number"))]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "faults"), _REFUSED.values(), ids=_REFUSED.keys())
def test_faults_have_their_path_and_line(text: str, faults: Faults) -> None:
    with pytest.raises(DocumentFault) as refused:
        read_workflow(text)
    assert refused.value.faults == tuple(Fault(*fault) for fault in faults)


def test_the_first_twenty_faults_in_order_of_lines() -> None:
    steps = "".join(f"    - {n}\n" for n in range(30))
    with pytest.raises(DocumentFault) as refused:
        read_workflow(f"release:\n  steps:\n{steps}build: 1\nversion: 1\nprocesses: {{}}\n")
    assert [fault.line for fault in refused.value.faults] == list(range(3, 23))


def test_a_fault_is_one_line() -> None:
    assert str(Fault("build.steps[0]", 3, "must be text")) == "line 3: build.steps[0]: must be text"
    assert str(DocumentFault([Fault("a", 9, "x"), Fault("", 1, "y")])) == "line 1: y; line 9: a: x"
