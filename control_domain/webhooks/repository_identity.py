"""Decides whether a delivery is about the connected repository: by the host's ID, which renames and transfers keep,
or by the name while no ID is stored (decisions/0034)."""

import logging
from urllib.parse import urlsplit

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.repositories.urls import parse_full_name
from control_domain.tables.repositories import Repository
from git_hosts.webhook_events import HostedRepository

logger = logging.getLogger(__name__)


async def match_repository(
    session: AsyncSession, repository: Repository, hosted: HostedRepository
) -> str | None:
    """Return None if `hosted` is the connected repository, or the reason why it is not, for people.

    Stores the host's ID from the first delivery with the connected repository's name. A repository that is connected by
    a folder has no name: until an operator sets its ID, every signed delivery matches.
    """
    if hosted.id is None or (repository.host_id is None and repository.full_name is None):
        is_known = repository.full_name is None or has_connected_name(repository, hosted)
        return None if is_known else explain_mismatch(repository, hosted)
    if repository.host_id is None and has_connected_name(repository, hosted):
        await store_host_id(session, repository, hosted.id)
    if repository.host_id == hosted.id:
        await store_new_name(session, repository, hosted)
        return None
    return explain_mismatch(repository, hosted)


async def store_host_id(session: AsyncSession, repository: Repository, host_id: str) -> None:
    """Store the host's ID of the repository; if another delivery stored one first, read that."""
    stored = await session.execute(
        update(Repository)
        .where(Repository.id == repository.id, Repository.host_id.is_(None))
        .values(host_id=host_id)
        .returning(Repository.id)
        .execution_options(synchronize_session=False)
    )
    if stored.first() is not None:
        logger.info("repository %d has the ID %s at its host", repository.id, host_id)
    await session.refresh(repository, ["host_id"])


async def store_new_name(session: AsyncSession, repository: Repository, hosted: HostedRepository) -> None:
    """Store the present name of a renamed repository. Its URL stays as the operator connected it."""
    if repository.full_name is None or has_connected_name(repository, hosted):
        return
    repository.full_name = list_possible_names(hosted, is_https=repository.url.startswith("https://"))[0]
    await session.flush()
    logger.warning(
        "repository %d is called %s at its host now: connect it by that address, because a "
        "repository that takes its old name is deployed from %s",
        repository.id,
        hosted.full_name,
        repository.url,
    )


def has_connected_name(repository: Repository, hosted: HostedRepository) -> bool:
    """Return True if the connected URL names this repository, ignoring case and `.git`.

    Hosts and ports are not compared: with SSH aliases, tunnels and mirrors they differ from the host's own.
    """
    return repository.full_name in list_possible_names(hosted, is_https=repository.url.startswith("https://"))


def list_possible_names(hosted: HostedRepository, *, is_https: bool) -> list[str]:
    """Return the names that a URL of this repository may have, in lower case, the likeliest first."""
    # A GitLab below a path has that path before the name, in HTTPS URLs only. In that case the page URL decides: on a
    # host below /git the URL of `acme/shop` ends like the name of `git/acme/shop`.
    if is_https and hosted.address is not None:
        page = parse_full_name(f"https://{hosted.address.partition('://')[2]}")
        if page is not None:
            return [page]
    return [hosted.full_name.lower()]


def is_on_other_host(repository: Repository, hosted: HostedRepository) -> bool:
    """Return True if both have HTTPS URLs on different hosts: all repositories of an application are on one host."""
    if hosted.address is None or not repository.url.startswith("https://"):
        return False
    return _host_of(repository.url) != _host_of(hosted.address)


def _host_of(address: str) -> str:
    try:
        return (urlsplit(address).hostname or "").removeprefix("www.")
    except ValueError:
        return ""


def explain_mismatch(repository: Repository, hosted: HostedRepository) -> str:
    """Return why `hosted` is not the connected repository, and what to do if it should be."""
    if repository.host_id is not None and has_connected_name(repository, hosted):
        return _explain_new_id(repository, hosted)
    known = "" if repository.host_id is None else f" (ID {repository.host_id})"
    return (
        f"It is about the repository {_describe(hosted)}, and this webhook is of {repository.url}{known}. "
        f"Where both are the same, {_advise(repository, hosted)}"
    )


def _explain_new_id(repository: Repository, hosted: HostedRepository) -> str:
    return (
        f"It is about {_describe(hosted)}, which has the name of {repository.url} but another ID than "
        f"{repository.host_id}: the repository was removed and created again, or another one has its "
        "name now. To deploy "
        f"from the new one, {_advise(repository, hosted)}"
    )


def _advise(repository: Repository, hosted: HostedRepository) -> str:
    if hosted.id is None:
        return "connect the repository again with its present address."
    return f"set the host ID of repository {repository.id} to {hosted.id}, and deliver it again."


def _describe(hosted: HostedRepository) -> str:
    return hosted.full_name if hosted.id is None else f"{hosted.full_name} (ID {hosted.id})"
