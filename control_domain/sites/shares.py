"""Creates, lists, revokes and opens links with which anybody can read the report of one site."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Literal, NamedTuple, TypedDict

from msgspec import Meta
from sqlalchemy import func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.describe import PersonSummary, summarize_person
from control_domain.accounts.operations import Caller
from control_domain.audit import Actor, record_audit_entry
from control_domain.paging import Page
from control_domain.sites.operations import SiteWithProject
from control_domain.slugs import check_name
from control_domain.tables.accounts import Account, Person
from control_domain.tables.projects import Project
from control_domain.tables.sites import ReportShare, Site
from pipeline_contracts.credentials import CredentialKind, digest_credential, is_well_formed, make_credential
from pipeline_contracts.errors import Conflict, NotFound, invalid_field
from pipeline_contracts.times import format_optional_time, format_time

MAX_LIVE = 50
"""Limit of live links of one site."""
_LONGEST_LIFE = timedelta(days=3660)
# One text for all causes: it must not tell a guesser which secrets were valid.
_UNUSABLE = (
    "This link is not known, has expired, or was revoked. Ask the person who gave it to you for another one."
)

ShareState = Literal["live", "expired", "revoked"]


class ShareDocument(TypedDict):
    """A link to the report of a site, without its secret."""

    id: int
    name: str
    state: ShareState
    created_by: PersonSummary
    created_at: str
    expires_at: str | None
    revoked_at: str | None


class CreatedShare(ShareDocument):
    """A new link to the report of a site."""

    secret: Annotated[
        str,
        Meta(
            description="Anybody who has it can read the report. It is not shown again. The page is "
            "`/share#s=<secret>`: servers do not log the part after `#`."
        ),
    ]


class ShareWithPerson(NamedTuple):
    """A link, and the person who created it."""

    share: ReportShare
    created_by: Person


class OpenedShare(NamedTuple):
    """The site that a secret opens."""

    share: ReportShare
    site: Site
    account: Account


async def add_share(
    session: AsyncSession,
    caller: Caller,
    found: SiteWithProject,
    name: str,
    expires_at: datetime | None,
    actor: Actor,
    now: datetime,
) -> tuple[ShareWithPerson, str]:
    """Create a link to the report of the locked site. Return it with its secret, which is not stored.

    Raises `InvalidInput`, and `Conflict` if the site has too many live links.
    """
    name = check_name(name)
    if expires_at is not None and not now < expires_at <= now + _LONGEST_LIFE:
        raise invalid_field("expires_at", "must be in the future, at most ten years from now")
    is_live = or_(ReportShare.expires_at.is_(None), ReportShare.expires_at > now)
    live = select(func.count()).where(
        ReportShare.site_id == found.site.id, ReportShare.revoked_at.is_(None), is_live
    )
    if (await session.execute(live)).scalar_one() >= MAX_LIVE:
        raise Conflict(f"The site has {MAX_LIVE} links to its report, which is the limit: revoke one first.")
    secret = make_credential(CredentialKind.REPORT_SHARE)
    share = ReportShare(
        site_id=found.site.id,
        name=name,
        digest=digest_credential(secret),
        created_by_id=caller.person.id,
        created_at=now,
        expires_at=expires_at,
    )
    session.add(share)
    await session.flush()
    details = {"share": share.id, "name": name, "expires_at": format_optional_time(expires_at)}
    _record(session, found, "site.share", actor, now, details)
    return ShareWithPerson(share, caller.person), secret


async def list_shares(
    session: AsyncSession, found: SiteWithProject, page: Page
) -> tuple[Sequence[ShareWithPerson], bool]:
    """Return a page of the links to the report of the site, the newest first, and whether more follow."""
    query = (
        select(ReportShare, Person)
        .join(Person, Person.id == ReportShare.created_by_id)
        .where(ReportShare.site_id == found.site.id)
        .order_by(ReportShare.id.desc())
        .limit(page.limit + 1)
    )
    if page.before is not None:
        query = query.where(ReportShare.id < page.before)
    rows = [ShareWithPerson(*row) for row in await session.execute(query)]
    return rows[: page.limit], len(rows) > page.limit


async def revoke_share(
    session: AsyncSession, found: SiteWithProject, share_id: int | None, actor: Actor, now: datetime
) -> ShareWithPerson:
    """Revoke a link; a revoked link stays unchanged. Raises `NotFound`."""
    query = (
        select(ReportShare, Person)
        .join(Person, Person.id == ReportShare.created_by_id)
        .where(ReportShare.id == (share_id or 0), ReportShare.site_id == found.site.id)
    )
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise NotFound("The site has no such link to its report.")
    share, person = row
    revoked = await session.execute(
        update(ReportShare)
        .where(ReportShare.id == share.id, ReportShare.revoked_at.is_(None))
        .values(revoked_at=now)
        .returning(ReportShare.id)
        .execution_options(synchronize_session=False)
    )
    if revoked.scalar_one_or_none() is not None:
        _record(session, found, "site.unshare", actor, now, {"share": share.id, "name": share.name})
    await session.refresh(share)
    return ShareWithPerson(share, person)


async def count_or_revoke_shares_of(
    session: AsyncSession, account: Account, person: Person, *, revokes: bool, actor: Actor, now: datetime
) -> int:
    """Return the number of live links that a person has made in the account; with `revokes`, revoke them."""
    query = (
        select(ReportShare, Site, Project)
        .join(Site, Site.id == ReportShare.site_id)
        .join(Project, Project.id == Site.project_id)
        .where(
            Project.account_id == account.id,
            ReportShare.created_by_id == person.id,
            ReportShare.revoked_at.is_(None),
            or_(ReportShare.expires_at.is_(None), ReportShare.expires_at > now),
        )
        .order_by(ReportShare.id)
    )
    rows = (await session.execute(query)).all()
    for share, site, project in rows if revokes else ():
        share.revoked_at = now
        details = {"share": share.id, "name": share.name}
        _record(session, SiteWithProject(site, project), "site.unshare", actor, now, details)
    await session.flush()
    return len(rows)


async def open_share(session: AsyncSession, secret: str, now: datetime) -> OpenedShare:
    """Return the site whose report the secret opens. Raises `NotFound`, whatever the cause."""
    if not is_well_formed(secret, CredentialKind.REPORT_SHARE):
        raise NotFound(_UNUSABLE)
    # Account scope: the secret names the site. The lookup compares digests, so its duration reveals nothing about
    # secrets.
    query = (
        select(ReportShare, Site, Account)
        .join(Site, Site.id == ReportShare.site_id)
        .join(Project, Project.id == Site.project_id)
        .join(Account, Account.id == Project.account_id)
        .where(ReportShare.digest == digest_credential(secret))
    )
    row = (await session.execute(query)).one_or_none()
    if row is None or get_share_state(row[0], now) != "live":
        raise NotFound(_UNUSABLE)
    return OpenedShare(*row)


def get_share_state(share: ReportShare, now: datetime) -> ShareState:
    """Return whether the link works, or why not."""
    if share.revoked_at is not None:
        return "revoked"
    return "expired" if share.expires_at is not None and share.expires_at <= now else "live"


def describe_share(found: ShareWithPerson, now: datetime) -> ShareDocument:
    share = found.share
    return {
        "id": share.id,
        "name": share.name,
        "state": get_share_state(share, now),
        "created_by": summarize_person(found.created_by),
        "created_at": format_time(share.created_at),
        "expires_at": format_optional_time(share.expires_at),
        "revoked_at": format_optional_time(share.revoked_at),
    }


def _record(
    session: AsyncSession,
    found: SiteWithProject,
    action: str,
    actor: Actor,
    now: datetime,
    details: dict[str, object],
) -> None:
    subject = f"site {found.site.id}"
    record_audit_entry(session, actor, found.project.account_id, action, subject, now, details)
