"""The configuration documents that are the most expensive to read: at the limits of size and number, and above them."""

from collections.abc import Mapping

from control_domain.sites.site_rules import MAX_DOMAINS

_HEAD = "version: 2\n"
_ENVIRONMENT = "version: 2\nenvironments:\n  a:\n"
# Each document is loaded from a separate file.
_ZONES = (
    "Europe/Oslo",
    "Asia/Tokyo",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Africa/Cairo",
)


def _variables(*lines: str) -> str:
    return f"{_ENVIRONMENT}    variables:\n" + "".join(f"      {line}\n" for line in lines)


def _heartbeats(*crons: str) -> str:
    lines = (f"      h{number}: {{cron: '{cron}'}}\n" for number, cron in enumerate(crons))
    return f"{_ENVIRONMENT}    heartbeats:\n" + "".join(lines)


def _at(count: int, days: str) -> list[str]:
    return [f"{number % 60} {number // 60} {days}" for number in range(count)]


def _sites(count: int, domain: str) -> str:
    """Return sites with the maximum number of domains; `domain` is a format of the site's and the domain's numbers."""
    return f"{_HEAD}sites:\n" + "".join(
        f"  s{site}: {{domains: [{', '.join(domain.format(site, number) for number in range(MAX_DOMAINS))}]}}\n"
        for site in range(count)
    )


def _goals(goal: str) -> str:
    return f"{_HEAD}sites:\n" + "".join(
        f"  s{site}: {{goals: [{','.join(goal.format(number) for number in range(100))}]}}\n"
        for site in range(10)
    )


def _whole() -> str:
    """Return a document with the maximum number of resources of every kind that is accepted."""
    settings = "order: 1, replicas: 1, state: running, locked: true, approval: {deploys: true}"
    windows = "".join(
        f"  e{n}: {{{settings}, window: {{days: [mon, fri], from: '09:00', to: '16:00', timezone: {zone}}}}}\n"
        for n, zone in enumerate(_ZONES * 10)
    )
    heartbeats = "".join(f"      h{n}: {{cron: '{cron}'}}\n" for n, cron in enumerate(_at(400, "*/28 2 1#5")))
    variables = "".join(f"      V{n}: ${{b}}\n" for n in range(700))
    domains = _sites(5, "øøøøøøøøøøøø.a{1}").removeprefix(_HEAD)
    return f"{_HEAD}environments:\n{windows}  a:\n    heartbeats:\n{heartbeats}    variables:\n{variables}{domains}"


Case = tuple[str, Mapping[str, object], str | None]
COSTLY: Mapping[str, Case] = {
    "variables": (f"{_HEAD}environments:\n" + "".join(
        f" e{e}:\n  variables:\n" + "".join(f"   V{n}: a\n" for n in range(999)) for e in range(4)), {}, None),
    "variables again and again": (f"{_HEAD}environments:\n a0: &a {{variables: {{" + ",".join(
        f"A{n}: b" for n in range(497)) + "}}\n" + "".join(f" a{n}: *a\n" for n in range(1, 9)), {}, None),
    "a long variable again and again": (_variables(
        f"A: &a '{'a' * 40_000}'", *(f"B{n}: *a" for n in range(12))), {}, None),
    "heartbeats": (_heartbeats(*_at(500, "* * *")), {}, None),
    "heartbeats due every 28 years": (_heartbeats(*_at(500, "*/28 2 1#5")), {}, None),
    "heartbeats that are never due": (_heartbeats(*_at(500, "*/31 * 1#5")), {}, (
        "line 5: environments.a.heartbeats.h0.cron: '0 0 */31 * 1#5' never comes")),
    "heartbeats of many terms": (_heartbeats(*[f"{','.join(['*/1'] * 40)} 1 * * *"] * 119), {}, None),
    "more than allowed": (_heartbeats(*[f"{','.join(['*/1'] * 40)} 1 * * *"] * 240), {}, (
        "line 2: environments: has 40,080 characters of cron expressions: the limit of a document is 20,000")),
    "heartbeats with all settings": (f"{_ENVIRONMENT}    heartbeats:\n" + "".join(
        f"      h{n}: {{period: {n}m, timezone: {_ZONES[n % 6]}, grace: 30m, max_runtime: 2h, paused: true}}\n"
        for n in range(1, 450)), {}, None),
    "too many heartbeats": (_heartbeats(*_at(501, "* * *")), {}, (
        "line 2: environments: has 501 heartbeats: the limit of a document is 500")),
    "queues": (f"{_ENVIRONMENT}    queues: {{" + ",".join(f"q{n}" for n in range(1000)) + "}", {}, None),
    "domains": (_sites(20, "a{1}"), {}, None),
    "invalid domains": (_sites(20, "a/{1}"), {}, (
        "line 3: sites.s0.domains[0]: 'a/0' is not an origin: write https://shop.example, or https://*.shop.example")),
    "domains beyond ASCII": (_sites(5, "øøøøøøøøøøøøøø.a{1}"), {}, None),
    "domains far beyond ASCII": (_sites(20, "'${{a}}.a{1}'"), {"a": f"{'ø' * 50}." * 4 + "ø"}, (
        "line 2: sites: has 208,800 characters of domains that are not in ASCII: the limit of a document is 5,000")),
    "goals": (_goals("{{name: g{0}, path: /}}"), {}, None),
    "goals with wrong keys": (_goals("{{nane: g{0}, pth: /}}"), {}, (
        "line 3: sites.s0.goals[0].nane: unknown; do you mean name?")),
    "addresses": (f"{_HEAD}delete: [" + ",".join(
        f"environments.a.variables.A{n}" for n in range(1000)) + "]", {}, None),
    "addresses with too many parts": (f"{_HEAD}delete: [" + ",".join(["environments." + "a." * 15] * 1000) + "]", {}, (
        "line 2: delete[0]: is not an address like environments.staging, environments.production.heartbeats.nightly or "
        'sites["shop.example"].goals.Signup')),
    "environments with wrong keys": (f"{_HEAD}environments:\n" + "".join(
        f"  e{n}: {{nane: a, typ: a, ordr: 1, brnch: a, replica: 1, stat: a, lock: true, widow: ~, wake: 1}}\n"
        for n in range(100)), {}, "line 3: environments.e0.nane: unknown; do you mean name?"),
    "bindings": (_variables(*(f"V{n}: ${{b{n}}}" for n in range(1000))), {
        f"b{n}": "x" * 250 for n in range(1000)}, None),
    "one binding used often": (_variables(f"V: '{'${b}' * 12_000}'"), {"b": "x" * 10}, None),
    "one binding used far too often": (_variables(f"V: '{'${b}' * 12_000}'"), {"b": "\U0001f680" * 30_000}, (
        "line 5: environments.a.variables.V: with bindings, the texts up to here have more than 1,000,000 characters")),
    "a wide binding": (_variables(*(f"V{n}: '${{b}}.'" for n in range(33))), {"b": "\U0001f680" * 30_000}, None),
    "an empty binding again and again": (_variables(
        f"V: &a '{'${b}' * 1000}'", *(f"W{n}: *a" for n in range(120))), {"b": ""}, None),
    "bindings that are missing": (_variables(f"V: '{''.join(f'${{b{n}}}' for n in range(6000))}'"), {}, (
        "b0: is missing: line 5 uses it, at environments.a.variables.V")),
    "text that begins no binding": (_variables(*(f"V{n}: '{'${' * 20}'" for n in range(800))), {}, (
        "line 5: environments.a.variables.V0: contains a ${ that begins no binding: write a binding as ${name}, and "
        "a literal ${ as $${")),
    "text that is not a binding": (_variables(f"V: '{'$${' * 16_000}'"), {}, None),
    "unused bindings": (_HEAD, {f"b{n}": "x" for n in range(1000)}, (
        "b0: is not used in the document: remove it, or use it in a value; keys cannot contain bindings")),
    "too many bindings": (_HEAD, {f"b{n}": "x" for n in range(100_000)}, "are 100,000: the limit is 1,000"),
    "all of it": (_whole(), {"b": "x" * 1000}, None),
}  # fmt: skip
"""Document, bindings, and the first fault that is reported; None if the document is accepted."""
