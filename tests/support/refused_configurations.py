"""Configurations with a secret that are refused: the secret is a binding, or part of the faulty text."""

from typing import Any

TEMPLATES = {
    "a project's name": "project: {name: %s}",
    "a name": "environments: {one: {type: staging, name: %s}}",
    "a type": "environments: {one: {type: %s}}",
    "an order": "environments: {one: {type: staging, order: %s}}",
    "a branch": "environments: {one: {type: staging, branch: %s}}",
    "replicas": "environments: {one: {type: staging, replicas: %s}}",
    "a state": "environments: {one: {type: staging, state: %s}}",
    "a lock": "environments: {one: {type: staging, locked: %s}}",
    "an approval": "environments: {one: {type: staging, approval: {deploys: %s}}}",
    "approvals": "environments: {one: {type: staging, approval: %s}}",
    "a window": "environments: {one: {type: staging, window: %s}}",
    "a day": 'environments: {one: {type: staging, window: {days: [%s], from: "09:00", to: "10:00"}}}',
    "a beginning": 'environments: {one: {type: staging, window: {days: [mon], from: %s, to: "10:00"}}}',
    "an end": 'environments: {one: {type: staging, window: {days: [mon], from: "09:00", to: %s}}}',
    "a window's zone": "environments: {one: {type: staging, window: {days: [mon], from: '1:00', to: '2:00', timezone: "
    "%s}}}",
    "variables": "environments: {one: {type: staging, variables: %s}}",
    "a variable": "environments: {one: {type: staging, variables: {A: %s}}}",
    "a bad variable": "environments: {one: {type: staging, variables: {A-B: %s}}}",
    "a kept variable": "environments: {one: {type: staging, variables: {A: {keep: %s}}}}",
    "a cron": "environments: {one: {type: staging, heartbeats: {b: {cron: %s}}}}",
    "a cron's part": 'environments: {one: {type: staging, heartbeats: {b: {cron: "0 3 * * ${bad}"}}}}',
    "a cron's zone": 'environments: {one: {type: staging, heartbeats: {b: {cron: "0 3 * * *", timezone: %s}}}}',
    "a period": "environments: {one: {type: staging, heartbeats: {b: {period: %s}}}}",
    "a grace": "environments: {one: {type: staging, heartbeats: {b: {period: 1h, grace: %s}}}}",
    "a run time": "environments: {one: {type: staging, heartbeats: {b: {period: 1h, max_runtime: %s}}}}",
    "failures": "environments: {one: {type: staging, heartbeats: {b: {period: 1h, failures_before_down: %s}}}}",
    "a pause": "environments: {one: {type: staging, heartbeats: {b: {period: 1h, paused: %s}}}}",
    "a heartbeat": "environments: {one: {type: staging, heartbeats: {b: %s}}}",
    "a queue": "environments: {one: {type: staging, queues: {b: %s}}}",
    "an environment": "environments: {one: %s}",
    "environments": "environments: %s",
    "a domain": "sites: {one: {domains: [%s]}}",
    "a domain's part": 'sites: {one: {domains: ["https://${bad}.example:99999"]}}',
    "a domain twice": 'sites: {one: {domains: ["https://${bad}.example", "https://${bad}.example"]}}',
    "a site's zone": 'sites: {one: {domains: ["https://one.example"], timezone: %s}}',
    "a goal's event": 'sites: {one: {domains: ["https://one.example"], goals: [{name: G, event: %s}]}}',
    "a goal's path": 'sites: {one: {domains: ["https://one.example"], goals: [{name: G, path: %s}]}}',
    "a goal's name": 'sites: {one: {domains: ["https://one.example"], goals: [{name: %s, path: /}]}}',
    "a goal": 'sites: {one: {domains: ["https://one.example"], goals: [%s]}}',
    "an unknown key": "environments: {one: {type: staging, secret: %s}}",
    "a deleted address": "delete: [%s]",
    "a part of a deleted address": 'delete: ["environments.vault.variables.${bad}"]',
}
"""Documents with a binding as a value or part of a text, by what the binding sets."""


def bad_values(core: str, foreign: str) -> list[str]:
    """Return values that hardly any field except a variable accepts."""
    return [
        core,
        f"{core} {core}",
        f"{core}\n{core}",
        f"é{core}'\"",
        f"https://{core}",
        f"/{core}",
        core * 300,
        f"{foreign}\0",
        f"{foreign}\ud800",
        "",
    ]


def bad_requests(core: str) -> dict[str, Any]:
    """Return faulty request bodies by their fault; bytes are sent unchanged."""
    binding = 'version: 2\nproject: {name: "${name}"}\n'
    plain = "version: 2\nenvironments: {one: {type: staging, variables: {A: %s}}}\n"
    return {
        "a missing binding": {"document": f'{binding}delete: ["${{plain}}"]', "bindings": {"name": core}},
        "an unused binding": {"document": binding, "bindings": {"name": "N", "plain": core}},
        "a list": {"document": binding, "bindings": {"name": [core]}},
        "a mapping": {"document": binding, "bindings": {"name": {core: core}}},
        "bindings that are a list": {"document": binding, "bindings": [core]},
        "bindings that are a text": {"document": binding, "bindings": core},
        "a binding that is too large": {"document": binding, "bindings": {"name": core * 8000}},
        "too many bindings": {"document": binding, "bindings": {f"b{n}": core for n in range(2000)}},
        "bindings that are too large": {
            "document": binding,
            "bindings": {f"b{n}": core * 1000 for n in range(10)},
        },
        "texts that are too large": {
            "document": plain % f"[{', '.join(['${name}'] * 2000)}]",
            "bindings": {"name": core * 1000},
        },
        "a document that is too large": {"document": plain % (core * 2000), "bindings": {}},
        "a body that is too large": {"document": core * 100_000, "bindings": {"name": core}},
        "a document that is a list": {"document": [core], "bindings": {}},
        "no document": {"bindings": {"name": core}},
        "a truncated body": f'{{"document": "{core}", "bindings": {{"name": "{core}'.encode(),
        "a body that is not text": f'{{"document": "{core}\udc80"}}'.encode("utf-8", "surrogateescape"),
        "an open quote": {"document": plain % f'"{core}', "bindings": {}},
        "an open list": {"document": plain % f"[{core}", "bindings": {}},
        "a bad escape": {"document": plain % f'"\\q{core}"', "bindings": {}},
        "a tag": {"document": plain % f"!!binary {core}", "bindings": {}},
        "a colon": {"document": f"version: 2\nproject: a: {core}\n", "bindings": {}},
        "no text": {"document": plain % f"[{core}]", "bindings": {}},
        "no binding": {"document": plain % f'"${{{core}"', "bindings": {}},
        "a value that is too large": {
            "document": plain % "${name}${name}",
            "bindings": {"name": core * 4000},
        },
        "an unfinished mapping": {"document": plain % f"{{{{{core}}}}}", "bindings": {}},
    }
