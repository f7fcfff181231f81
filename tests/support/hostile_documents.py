"""Texts that try to trick or exhaust the readers of YAML documents, and the faults that the readers report.

In a text, VERSION stands for the version of the document and REST for a line that completes it. A fault is
`str(fault)`; TOP in it stands for the message on an unknown key. Faults that differ between readers are given by kind.
"""

from collections.abc import Mapping, Sequence

from control_domain.documents.strict_yaml import MAX_CHARACTERS, MAX_DEPTH

WORKFLOW, CONFIGURATION = "workflow", "configuration"
KINDS = (WORKFLOW, CONFIGURATION)
Faults = Sequence[str] | Mapping[str, Sequence[str]]

_VERSIONS = {WORKFLOW: "1", CONFIGURATION: "2"}
_RESTS = {WORKFLOW: "processes: {web: {command: serve}}", CONFIGURATION: "project: {name: Shop}"}
_TOPS = {
    WORKFLOW: "unknown; known are version, build, release, processes, triggers, retain",
    CONFIGURATION: "unknown; known are version, project, environments, sites, notifications, delete",
}


def fill_text(text: str, kind: str) -> str:
    """Return the text of a document of this kind."""
    return text.replace("VERSION", _VERSIONS[kind]).replace("REST", _RESTS[kind])


def fill_faults(faults: Faults, kind: str) -> list[str]:
    """Return the faults that the reader of this kind reports."""
    texts = faults[kind] if isinstance(faults, Mapping) else faults
    return [fault.replace("TOP", _TOPS[kind]) for fault in texts]


_NOT_TEXT = "a key is not text: write it in quotes"
_MERGE = "merge keys (<<) are not supported: write the merged keys instead"
_DEEP = f"is nested deeper than {MAX_DEPTH} levels"
_MANY = "is one of more than 10,000 values, with those that aliases stand for"
_SECOND = "a second document begins here: only one is allowed"
_OTHER_VERSION: Faults = {
    WORKFLOW: ["line 1: version: must be 1: a workflow document has no other version"],
    CONFIGURATION: ["line 1: version: must be 2: a configuration document has no other version"],
}


def _tag(tag: str) -> str:
    return f"has the tag {tag!r}: only tags of YAML's core schema are allowed; remove it"


def _character(code: str) -> str:
    return f"the character U+{code} is not allowed"


def _no_yaml(line: int, problem: str, context: str = "", begun: int = 0) -> list[str]:
    return [
        f"line {line}: is no YAML: {problem}"
        + (f", {context} that begins on line {begun}" if context else "")
    ]


_TOKEN = ("found character that cannot start any token", "while scanning for the next token")
_QUOTED = "while parsing a quoted scalar"
_UNICODE = "found invalid Unicode character escape code"
_LACKING = {WORKFLOW: ["line 1: processes: is missing"], CONFIGURATION: []}

TRICKY: Mapping[str, tuple[str, Faults]] = {
    # Keys.
    "a key twice": ("version: VERSION\nREST\nversion: VERSION", ["line 3: version: is given already on line 1"]),
    "a key twice, once in quotes": ("version: VERSION\nREST\n\n'version': VERSION", [
        "line 4: version: is given already on line 1"]),
    "a key twice, once in escapes": ('version: VERSION\nREST\n"ver\\x73i\\u006Fn": VERSION', [
        "line 3: version: is given already on line 1"]),
    "a key twice, once as an alias": ("&k version: VERSION\nREST\n*k : VERSION", [
        "line 3: version: is given already on line 1"]),
    "a key twice, far down": ("version: VERSION\nREST\na: [{b: {c: 1,\n  'c': 2}}]", [
        "line 3: a: TOP", "line 4: a[0].b.c: is given already on line 3"]),
    "a key thrice": ("version: VERSION\nREST\nversion: 9\nversion: 9", [
        "line 3: version: is given already on line 1", "line 4: version: is given already on line 1"]),
    "a letter in two forms is two letters": ("version: VERSION\nREST\n\u00e9: 1\ne\u0301: 1", [
        "line 3: '\u00e9': TOP", "line 4: 'e\u0301': TOP"]),
    "null as a key": ("version: VERSION\nREST\n~: 1\nnull: 1\n? \n: 1", [f"line {n}: {_NOT_TEXT}" for n in (3, 4, 5)]),
    "truths as keys": ("version: VERSION\nREST\ntrue: 1\nFALSE: 1", [f"line {n}: {_NOT_TEXT}" for n in (3, 4)]),
    "numbers as keys": ("version: VERSION\nREST\n1: 1\n1.5: 1\n.inf: 1\n0x1: 1", [
        f"line {n}: {_NOT_TEXT}" for n in (3, 4, 5, 6)]),
    "no as a key is text": ("version: VERSION\nREST\nno: 1", ["line 3: no: TOP"]),
    "a list as a key": ("version: VERSION\nREST\n? [a, b]\n: 1", [f"line 3: {_NOT_TEXT}"]),
    "a mapping as a key": ("version: VERSION\nREST\n{a: 1}: 1", [f"line 3: {_NOT_TEXT}"]),
    "a key in long": ("? version\n: VERSION\nREST", []),
    "an empty key": ("version: VERSION\nREST\n'': 1", ["line 3: '': TOP"]),
    "a key of two lines": ('version: VERSION\nREST\n"a\\nb": 1', ["line 3: 'a\\nb': TOP"]),
    "a merge": ("version: VERSION\nREST\n<<: {a: 1}", [f"line 3: {_MERGE}"]),
    "a merge of an alias": ("version: VERSION\nREST\na: &x {b: 1}\nc: {<<: *x}", [
        "line 3: a: TOP", f"line 4: c: {_MERGE}", "line 4: c: TOP"]),
    "a merge under another name": ("version: VERSION\nREST\na: &m <<\n*m : {b: 1}", [
        "line 3: a: TOP", f"line 4: {_MERGE}"]),
    "a merge in quotes is a key": ("version: VERSION\nREST\n'<<': {a: 1}", ["line 3: '<<': TOP"]),
    # Aliases.
    "an alias that contains itself": ("version: VERSION\nREST\na: &x\n  b: [*x]", [
        "line 4: a.b[0]: the anchor 'x' holds itself"]),
    "aliases that contain each other": ("version: VERSION\nREST\na: &x [&y [*x], *y]", [
        "line 3: a[0][0]: the anchor 'x' holds itself"]),
    "an alias before its anchor": ("version: VERSION\nREST\na: *x\nb: &x 1", [
        "line 3: a: there is no anchor 'x' before this alias"]),
    "an anchor without a value": ("version: &v\nREST", _OTHER_VERSION),
    "an anchor twice": ("REST\na: &v 9\nb: &v VERSION\nversion: *v", ["line 2: a: TOP", "line 3: b: TOP"]),
    # Tags.
    "a tag that makes an object": ("version: VERSION\nREST\na: !!python/object/apply:os.system [id]", [
        "line 3: a: " + _tag("!!python/object/apply:os.system"), "line 3: a: TOP"]),
    "a tag in full": ("version: VERSION\nREST\na: !<tag:yaml.org,2002:python/name:os.system>", [
        "line 3: a: " + _tag("!!python/name:os.system"), "line 3: a: TOP"]),
    "a custom tag": ("version: VERSION\nREST\na: !include /etc/passwd", [
        "line 3: a: " + _tag("!include"), "line 3: a: TOP"]),
    "a tag that says nothing": ("version: VERSION\nREST\na: ! 1", ["line 3: a: " + _tag("!"), "line 3: a: TOP"]),
    **{f"the tag {tag}": (f"version: VERSION\nREST\na: {tag} {value}", ["line 3: a: " + _tag(tag), "line 3: a: TOP"])
       for tag, value in {"!!binary": "aGk=", "!!set": "{b}", "!!timestamp": "2026-01-01", "!!omap": "[]"}.items()},
    "a tag on a key": ("version: VERSION\nREST\n!x a: 1", ["line 3: " + _tag("!x")]),
    "a handle for tags": ("%TAG ! tag:example.com,2000:\n---\nversion: VERSION\nREST\na: !x 1", [
        "line 5: a: " + _tag("tag:example.com,2000:x"), "line 5: a: TOP"]),
    "a handle for the core's": ("%TAG !y! tag:yaml.org,2002:\n---\nversion: !y!int 'VERSION'\nREST", []),
    "an undefined handle": ("version: VERSION\nREST\na: !e!x 1", _no_yaml(
        3, "found undefined tag handle", "while parsing a node", 3)),
    # The version.
    "the version under its tag": ("version: !!int 'VERSION'\nREST", []),
    "the version in base 16": ("version: 0x0VERSION\nREST", []),
    "the version with a sign": ("version: +VERSION\nREST", []),
    "the version as text": ("version: 'VERSION'\nREST", _OTHER_VERSION),
    "the version as a fraction": ("version: VERSION.0\nREST", _OTHER_VERSION),
    "the version as a truth": ("version: true\nREST", _OTHER_VERSION),
    "no version": ("REST", ["line 1: version: is missing"]),
    # Characters.
    "a tab before a key": ("version: VERSION\nREST\na:\n\tb: 1", _no_yaml(4, *_TOKEN, 4)),
    "a tab in place of a blank": ("version:\tVERSION\nREST", []),
    "a byte order mark first": ("\ufeffversion: VERSION\nREST", []),
    "a byte order mark twice": ("\ufeff\ufeffversion: VERSION\nREST", ["line 1: " + _character("FEFF")]),
    "a byte order mark later": ("version: VERSION\n\ufeffREST", ["line 2: " + _character("FEFF")]),
    **{f"the character {code}": (f"version: VERSION\nREST # {chr(int(code, 16))}", [f"line 2: {_character(code)}"])
       for code in ("0000", "0007", "001B", "007F", "0080", "009B", "D83D", "DC00", "FFFE", "FFFF")},
    "a next line": ("version: VERSION\u0085REST", ["line 1: " + _character("0085")]),
    "a line separator": ("version: VERSION\nREST\u2028a: 1", ["line 2: " + _character("2028")]),
    "a paragraph separator": ("version: VERSION\nREST\u2029a: 1", ["line 2: " + _character("2029")]),
    "the same in escapes": ('version: VERSION\nREST\n"\\N\\L\\P": 1\nb: 1', [
        "line 3: '\\x85\\u2028\\u2029': TOP", "line 4: b: TOP"]),
    "lines that end in CR LF": ("version: VERSION\r\nREST\r\n\r\na: 1\r\n", ["line 4: a: TOP"]),
    "lines that end in CR": ("version: VERSION\rREST\r\ra: 1\r", ["line 4: a: TOP"]),
    "lines with all kinds of ends": ("version: VERSION\r\nREST\r\n\na: 1\rb: 1\n\r\nc: 1", [
        "line 4: a: TOP", "line 5: b: TOP", "line 7: c: TOP"]),
    "an emoji": ("version: VERSION\nREST\n🚀: 1", ["line 3: '🚀': TOP"]),
    "a right-to-left override": ("version: VERSION\nREST\na\u202eb: 1", ["line 3: 'a\\u202eb': TOP"]),
    "a blank of no width": ("version: VERSION\nREST\nvers\u200bion: 1", [
        "line 3: 'vers\\u200bion': unknown; do you mean version?"]),
    "a letter of another alphabet": ("version: VERSION\nREST\nv\u0435rsion: 1", [
        "line 3: 'v\u0435rsion': unknown; do you mean version?"]),
    "an invalid escape": ('version: VERSION\nREST\na: "\\q"', _no_yaml(
        3, "found unknown escape character", _QUOTED, 3)),
    "an escape of half a pair": ('version: VERSION\nREST\na: "\\ud83d"', _no_yaml(3, _UNICODE, _QUOTED, 3)),
    "an escape beyond all characters": ('version: VERSION\nREST\na: "\\U00110000"', _no_yaml(3, _UNICODE, _QUOTED, 3)),
    # Documents.
    "two documents": ("version: VERSION\nREST\n---\nversion: VERSION\nREST", [f"line 3: {_SECOND}"]),
    "a document after an end": ("version: VERSION\nREST\n...\nversion: VERSION", _no_yaml(
        4, "did not find expected <document start>")),
    "a beginning and an end": ("---\nversion: VERSION\nREST\n...\n# nothing more\n", []),
    "YAML 1.1": ("%YAML 1.1\n---\nversion: VERSION\nREST", ["line 1: is not YAML 1.2: remove the %YAML line"]),
    "YAML 1.2": ("%YAML 1.2\n---\nversion: VERSION\nREST", []),
    "YAML 2.0": ("%YAML 2.0\n---\nversion: VERSION\nREST", _no_yaml(1, "found incompatible YAML document")),
    "a custom directive": ("%FOO bar\n---\nversion: VERSION\nREST", _no_yaml(
        1, "found unknown directive name", "while scanning a directive", 1)),
    "JSON": ('{\n\t"version": VERSION\n}', _LACKING),
    "a comma too many": ("{version: VERSION,}", _LACKING),
    "nothing": ("", ["line 1: is empty"]),
    "blanks": (" \n  \n", ["line 1: is empty"]),
    "comments": ("# version: VERSION\n# REST\n", ["line 1: is empty"]),
    "a beginning alone": ("\n---\n\n# nothing\n", ["line 2: must be a mapping, not nothing"]),
    "a text": ("version", ["line 1: must be a mapping, not text"]),
    "a list": ("\n- version: VERSION\n- REST", ["line 2: must be a mapping, not a list"]),
    "null": ("null", ["line 1: must be a mapping, not nothing"]),
    # Texts that are not YAML.
    "an open double quote": ('version: VERSION\nREST\na: "b\n\n', _no_yaml(
        3, "found unexpected end of stream", "while scanning a quoted scalar", 3)),
    "an open single quote": ("version: VERSION\nREST\na: 'b\nc: d", _no_yaml(
        4, "found unexpected end of stream", "while scanning a quoted scalar", 3)),
    "an open bracket": ("version: VERSION\nREST\na: [b,\n", _no_yaml(
        3, "did not find expected node content", "while parsing a flow node", 3)),
    "an open brace": ("version: VERSION\nREST\na: {b: 1\n", _no_yaml(
        3, "did not find expected ',' or '}'", "while parsing a flow mapping", 3)),
    "a bracket that was not opened": ("version: VERSION\nREST\na: ]", _no_yaml(
        3, "did not find expected node content", "while parsing a block node", 3)),
    "a value of a value": ("version: VERSION\nREST\na: b: c", _no_yaml(
        3, "mapping values are not allowed in this context")),
    "something behind a value": ("version: VERSION\nREST\na: 'b' c", _no_yaml(
        3, "did not find expected key", "while parsing a block mapping", 1)),
    "a key out of line": ("version: VERSION\n REST", _no_yaml(2, "mapping values are not allowed in this context")),
    "a character that cannot begin a token": ("version: VERSION\nREST\na: `b`", _no_yaml(3, *_TOKEN, 3)),
    "a block with another header": ("version: VERSION\nREST\na: |x\n  b", _no_yaml(
        3, "did not find expected comment or line break", "while scanning a block scalar", 3)),
}  # fmt: skip
"""Short texts with their faults; a text without faults is accepted."""

_HALF = MAX_CHARACTERS // 2
_ITEMS = "[0]" * MAX_DEPTH


def _doubling(levels: int, item: str = "[*{0},*{0}]") -> str:
    return "x0: &x0 [a,a]\n" + "".join(f"x{n}: &x{n} {item.format(f'x{n - 1}')}\n" for n in range(1, levels))


def _keys(lacking: Sequence[str]) -> list[str]:
    """Return the first twenty faults of a text of unknown keys; `lacking` are required keys."""
    unknown = [f"line {n}: key{n - 1}: TOP" for n in range(1, 21)]
    return [unknown[0], *(f"line 1: {key}: is missing" for key in lacking), *unknown[1 : 20 - len(lacking)]]


LARGE: Mapping[str, tuple[str, Faults]] = {
    "brackets": ("[" * MAX_CHARACTERS, [f"line 1: {_ITEMS}: {_DEEP}"]),
    "closed brackets": ("[" * _HALF + "]" * _HALF, [f"line 1: {_ITEMS}: {_DEEP}"]),
    "adjacent brackets": ("[[1]," * (MAX_CHARACTERS // 5), [
        f"line 1: {'[1]' * (MAX_DEPTH - 1)}[0]: {_DEEP}"]),
    "braces": ("{a: " * (MAX_CHARACTERS // 4), [f"line 1: {'.'.join('a' * MAX_DEPTH)}: {_DEEP}"]),
    "braces as keys": ("{? " * (MAX_CHARACTERS // 3), [f"line 1: {_DEEP}"]),
    "dashes": ("- " * _HALF, [f"line 1: {_ITEMS}: {_DEEP}"]),
    "question marks": ("? " * _HALF, [f"line 1: {_DEEP}"]),
    "keys of keys": ("? " * (MAX_CHARACTERS // 4) + ": " * (MAX_CHARACTERS // 4), [f"line 1: {_DEEP}"]),
    "steps of blanks": ("".join(f"{' ' * n}a:\n" for n in range(300)), [
        f"line {MAX_DEPTH + 1}: {'.'.join('a' * MAX_DEPTH)}: {_DEEP}"]),
    "billion laughs": (_doubling(30), [f"line 12: x11[0]: {_MANY}"]),
    "thousands of doublings": (_doubling(1500), [f"line 12: x11[0]: {_MANY}"]),
    "laughs in mappings": (_doubling(30, "{{a: *{0}, b: *{0}}}"), [f"line 11: x10.b: {_MANY}"]),
    "eleven times as large": ("[&x [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]" + ",*x" * 40 + "]", [
        "line 1: [29]: aliases make the document more than 10 times as large"]),
    "a large list often": ("x: &x [" + "a," * 5000 + "]\ny: [" + "*x," * 5000 + "]", [f"line 2: y[0]: {_MANY}"]),
    "a long text often": ("x: &x '" + "a" * 40_000 + "'\ny: [" + "*x," * 3000 + "]", [
        "line 2: y[12]: aliases stand for more than 500,000 characters"]),
    "a tall tower": ("".join(f"x{n}: &x{n} [" + (f"*x{n - 1}" if n else "") + "]\n" for n in range(2000)), [
        f"line 32: x31[0]: {_DEEP}"]),
    "aliases to itself": ("a: &a [" + "*a," * (MAX_CHARACTERS // 4) + "]", [
        "line 1: a[0]: the anchor 'a' holds itself"]),
    "anchors": ("[" + "&a a," * 9000 + "]", ["line 1: must be a mapping, not a list"]),
    "unknown keys": ("".join(f"key{n}: 1\n" for n in range(4500)), {
        WORKFLOW: _keys(["version", "processes"]), CONFIGURATION: _keys(["version"])}),
    "keys that are not text": ("".join(f"{n}: 1\n" for n in range(6000)), [
        f"line {n}: {_NOT_TEXT}" for n in range(1, 21)]),
    "one key": ("a: 1\n" * (MAX_CHARACTERS // 5), [f"line {n}: a: is given already on line 1" for n in range(2, 22)]),
    "one key in braces": ("{" + '"a":,' * 9000 + "}", ["line 1: a: is given already on line 1"] * 20),
    "keys of many tags": ("".join(f"!a{n} b: 1\n" for n in range(4000)), [
        "line {}: {}".format(n, _tag(f"!a{n - 1}")) for n in range(1, 21)]),
    "processes": ("version: VERSION\nprocesses:\n" + "".join(f" p{n}: 1\n" for n in range(4500)), {
        WORKFLOW: ["line 2: processes: has 4,500 processes: 1 to 20 are allowed"],
        CONFIGURATION: ["line 2: processes: TOP"]}),
    "branches": ("version: VERSION\ntriggers:\n push:\n" + "".join(f"  b{n}: 1\n" for n in range(4500)), {
        WORKFLOW: ["line 1: processes: is missing", *(
            f"line {n}: triggers.push.b{n - 4}: must be text, not a whole number: write it in quotes"
            for n in range(4, 23))],
        CONFIGURATION: ["line 2: triggers: TOP"]}),
    "steps": ("version: VERSION\nbuild: {steps: [" + "1," * 24_000 + "]}", [f"line 2: build.steps[9993]: {_MANY}"]),
    "environments": ("version: VERSION\nenvironments:\n" + "".join(f" e{n}: 1\n" for n in range(4500)), {
        WORKFLOW: ["line 1: processes: is missing", "line 2: environments: TOP"],
        CONFIGURATION: ["line 2: environments: has 4,500 environments: the limit of a document is 100"]}),
    "a long number": ("version: " + "9" * 49_000, [
        "line 1: version: is a whole number that does not fit into 64 bits: write it in quotes"]),
    "a long fraction": ("version: 0." + "0" * 49_000 + "x", _OTHER_VERSION),
    "a long key": ("version: VERSION\nREST\n? " + "a" * 49_000 + "\n: 1", [f"line 3: '{'a' * 59}…': TOP"]),
    "a long tag": ("!" * MAX_CHARACTERS, ["line 1: " + _tag("!" * 60)]),
    "a long anchor": ("a: *" + "a" * 49_000, [f"line 1: a: there is no anchor '{'a' * 59}…' before this alias"]),
    "a long directive": ("%" + "a" * 49_000, _no_yaml(
        1, "found unknown directive name", "while scanning a directive", 1)),
    "quotes": ("'" * MAX_CHARACTERS, ["line 1: must be a mapping, not text"]),
    "escapes": ('"' + "\\x41" * 12_000 + '"', ["line 1: must be a mapping, not text"]),
    "a block of blanks": ("version: VERSION\nREST\na: |\n" + " \n" * 20_000, ["line 3: a: TOP"]),
    "a folded block": ("version: VERSION\nREST\na: >\n" + " b\n" * 15_000, ["line 3: a: TOP"]),
    "line ends": ("\n" * MAX_CHARACTERS, ["line 1: is empty"]),
    "comments": ("#\n" * _HALF, ["line 1: is empty"]),
    "documents": ("---\n" * 10_000, [f"line 2: {_SECOND}"]),
    "pairs": ("[" + "a: b," * 9900 + "]", [f"line 1: [3333]: {_MANY}"]),
    "empty items": ("-\n" * _HALF, [f"line 10000: [9999]: {_MANY}"]),
    "a comment": ("version: VERSION\nREST\n#" + "x" * 49_900, []),
    "a text far too long": ("[" * 5_000_000, ["line 1: has more than 50,000 characters"]),
}  # fmt: skip
"""Long texts, which cost time or memory."""
