"""DSNs fit the pattern of Sentry's SDK for JavaScript, the strictest one."""

import re

from pipeline_contracts.credentials import CredentialKind, make_credential
from pipeline_contracts.sentry_dsn import make_sentry_dsn

# @sentry/core 11, utils/dsn.ts; the last part must be digits.
_DSN = re.compile(r"^(?:(\w+):)//(?:(\w+)(?::(\w+)?)?@)((?:\[[:.%\w]+\]|[\w.-]+))(?::(\d+))?/(.+)")


def test_dsn_of_an_ingest_key() -> None:
    key = make_credential(CredentialKind.INGEST_KEY)
    for base_url, host, port, path in [
        ("https://pharos.example/api", "pharos.example", None, "1"),
        ("http://127.0.0.1:8000/api", "127.0.0.1", "8000", "1"),
        ("http://[::1]:8000/api/", "[::1]", "8000", "1"),
        ("https://example.org/tools/api", "example.org", None, "tools/1"),
    ]:
        found = _DSN.match(make_sentry_dsn(base_url, key))
        assert found is not None
        assert (found[2], found[3], found[4], found[5], found[6]) == (key, None, host, port, path)
