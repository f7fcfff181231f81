"""The catalogue of channel types, and the validation of their settings and secrets."""

import pytest

from control_domain.notifications.channel_types import (
    CHANNEL_TYPES,
    NtfySettings,
    check_channel,
    find_unavailable_reason,
    new_signing_secret,
    read_settings,
)
from control_domain.notifications.destination_formats import FORMATS, read_signing_secrets
from pipeline_contracts.errors import InvalidInput
from pipeline_contracts.settings import Settings

_URL = "https://receiver.example/hook"
_VALID: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "email": ({"address": "ops+alerts@example.org"}, {}),
    "webhook": ({"url": _URL}, {"signing_secret": new_signing_secret(), "authorization": "Bearer x"}),
    "slack": ({}, {"url": "https://hooks.slack.com/services/T0/B0/x"}),
    "discord": ({}, {"url": "https://discord.com/api/webhooks/1/x"}),
    "teams": ({}, {"url": "https://prod-1.westeurope.logic.azure.com:443/workflows/x?sig=a-b_c%2F"}),
    "telegram": ({"chat_id": "-1001234567890", "topic_id": "5"}, {"bot_token": "123456:" + "A" * 35}),
    "ntfy": ({"server": "http://ntfy.internal:8080"}, {"topic": "ops_1-x", "token": "tk_1"}),
    "pagerduty": ({}, {"routing_key": "0" * 32}),
    "apprise": ({}, {"url": "matrixs://token@example.org/!room"}),
}


@pytest.mark.parametrize("name", CHANNEL_TYPES)
def test_complete_channel_is_accepted(name: str) -> None:
    settings, secrets = _VALID[name]
    assert check_channel(name, settings, secrets) == (settings, secrets)


@pytest.mark.parametrize("name", CHANNEL_TYPES)
def test_fields_are_described(name: str) -> None:
    fields = CHANNEL_TYPES[name].list_fields()
    assert fields
    for field in fields:
        assert field.description
        assert field.format in FORMATS
        assert field.max_length > 0
        assert not field.default or FORMATS[field.format](field.default) is None


def _find_faults(name: str, settings: dict[str, object], secrets: dict[str, object]) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        check_channel(name, settings, secrets)
    return {error.field: error.message for error in caught.value.errors}


def test_each_fault_names_its_field() -> None:
    assert list(_find_faults("fax", {}, {})) == ["type"]
    assert _find_faults("webhook", {}, {}) == {
        "settings.url": "is required",
        "secrets.signing_secret": "is required",
    }
    assert _find_faults("slack", {"url": _URL}, {"url": _URL, "token": "x"}) == {
        "settings.url": "is unknown; the type has no settings",
        "secrets.token": "is unknown; the type has url",
    }
    assert _find_faults("email", {"address": 5}, {}) == {"settings.address": "must be a string"}
    assert _find_faults("email", {"address": f"{'a' * 300}@example.org"}, {}) == {
        "settings.address": "must have at most 254 characters"
    }


def test_empty_optional_values_are_left_out() -> None:
    settings, secrets = check_channel("ntfy", {"server": ""}, {"topic": "ops", "token": ""})
    assert (settings, secrets) == ({}, {"topic": "ops"})
    assert read_settings(NtfySettings, settings).server == "https://ntfy.sh"


_REFUSED = {
    "http-url": (
        "example.org",
        "ftp://example.org/",
        "https://",
        "https:///path",
        "https://user@example.org/",
        "https://user:password@example.org/",
        "https://exa mple.org/",
        "https://example.org/\r\nHost: x",
        "https://example.org\\@evil.example/",
        "https://example.org:0/",
        "https://example.org:70000/",
        "https://[::1/",
        "https://a..example/",
        "https://.example/",
        f"https://{'a' * 64}.example/",
        "https://xn--/",
        "https://b\u00fccher.example/",
        "javascript:alert(1)",
        "file:///etc/passwd",
    ),
    "email": (
        "ops",
        "ops@",
        "@example.org",
        "a b@example.org",
        "a@b@example.org",
        "a@example.org, b@example.org",
        "Ops <ops@example.org>",
        "ops@example.org\r\nBcc: x@example.org",
        ".ops@example.org",
        "o..ps@example.org",
        "\u00fc@example.org",
    ),
    "signing-secret": (
        "",
        "secret",
        "whsec_",
        "whsec_c2hvcnQ=",
        "whsec_" + "!" * 40,
        f"{new_signing_secret()} x",
    ),
    "header": ("Bearer x\r\nHost: y", "\x00", "\u00e4"),
    "apprise-url": ("json", "json://", "json://a b", "://x"),
    "ntfy-topic": ("a/b", "a b", "", "\u00e4"),
    "telegram-chat": ("name", "@x", "12a", "-"),
    "telegram-token": ("123", "123456:short", "123456:" + "A" * 30 + "/../x"),
    "number": ("0", "-1", "x", "1.5"),
    "pagerduty-key": ("x", "0" * 31, "0" * 33, "0" * 31 + "/"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_values_of_another_form_are_refused_without_repeating_them(name: str) -> None:
    for value in _REFUSED[name]:
        fault = FORMATS[name](value)
        assert fault is not None, value
        assert len(value) < 13 or value not in fault


def test_signing_secrets_of_a_rotation() -> None:
    secrets = [new_signing_secret() for _ in range(4)]
    assert len(set(read_signing_secrets(" ".join(secrets[:3])))) == 3
    assert all(len(key) == 32 for key in read_signing_secrets(secrets[0]))
    with pytest.raises(ValueError, match="up to 3"):
        read_signing_secrets(" ".join(secrets))


def test_types_need_settings_of_the_operator() -> None:
    assert "PHAROS_SMTP_URL" in (find_unavailable_reason("email", Settings()) or "")
    assert find_unavailable_reason("email", Settings(smtp_url="smtp://x")) is None
    assert "PHAROS_APPRISE" in (find_unavailable_reason("apprise", Settings()) or "")
    assert find_unavailable_reason("slack", Settings()) is None
