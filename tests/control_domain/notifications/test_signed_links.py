"""A link to an incident works only for that incident, for 30 days, and with its own signature."""

from datetime import UTC, datetime, timedelta

from control_domain.notifications.signed_links import LINK_DAYS, IncidentLinks, LinkRecipient

_NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
_PERSON = LinkRecipient(person_id=12)
_LINKS = IncidentLinks(b"k" * 32, "https://pharos.example/")


def test_link_works_for_30_days_and_its_incident() -> None:
    url = _LINKS.page("inc_1", _PERSON, _NOW)
    assert url is not None
    page, _, signature = url.partition("?s=")
    assert page == "https://pharos.example/incidents/inc_1"
    last = _NOW + timedelta(days=LINK_DAYS) - timedelta(seconds=1)
    assert _LINKS.check("inc_1", signature, _NOW) == _PERSON
    assert _LINKS.check("inc_1", signature, last) == _PERSON
    assert not _LINKS.check("inc_1", signature, last + timedelta(seconds=1))
    assert not _LINKS.check("inc_2", signature, _NOW)


def test_altered_signature_is_refused() -> None:
    signature = _LINKS.sign("inc_1", _PERSON, _NOW)
    expiry, recipient, mac = signature.split(".")
    for altered in (
        "",
        ".",
        mac,
        f"{expiry}.{mac}",
        f"{int(expiry) + 1}.{recipient}.{mac}",
        f"{'9' * 12}.{recipient}.{mac}",
        f"{expiry}.p1.{mac}",
        f"{expiry}.c12.{mac}",
        f"{expiry}.p012.{mac}",
        f"{expiry}.{recipient}.{mac[::-1]}",
        f"{expiry}.{recipient}.{mac}\n",
        f"{expiry}.{recipient}.{mac}=",
        f"٣{expiry[1:]}.{recipient}.{mac}",
        f"{expiry}.p٣.{mac}",
        f"{expiry}.{recipient}.ü{mac[1:]}",
    ):
        assert not _LINKS.check("inc_1", altered, _NOW), altered
    assert not IncidentLinks(b"l" * 32, None).check("inc_1", signature, _NOW)


def test_no_link_without_a_public_url() -> None:
    assert IncidentLinks(b"k" * 32, None).page("inc_1", _PERSON, _NOW) is None
