"""Whether a delivery is about the repository that is connected. The host's ID of it decides, which renames and
transfers keep; before one is known, the name does (decisions/0034)."""

import logging
from urllib.parse import urlsplit

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.repositories.read_url import full_name
from control_domain.tables.repositories import Repository
from git_hosts.webhook_events import HostedRepository

logger = logging.getLogger(__name__)


async def recognize(session: AsyncSession, repository: Repository, hosted: HostedRepository) -> str | None:
    """Return None if `hosted` is the connected repository, or the reason why it is not, for people.

    The first delivery that has the connected repository's name teaches the host's ID of it. A repository that is
    connected by a folder has no name: without an ID that an operator has set, all that is signed is believed.
    """
    if hosted.id is None or (repository.host_id is None and repository.full_name is None):
        is_known = repository.full_name is None or is_named(repository, hosted)
        return None if is_known else describe_other(repository, hosted)
    if repository.host_id is None and is_named(repository, hosted):
        await learn(session, repository, hosted.id)
    if repository.host_id == hosted.id:
        await note_rename(session, repository, hosted)
        return None
    return describe_other(repository, hosted)


async def learn(session: AsyncSession, repository: Repository, host_id: str) -> None:
    """Write down the host's ID of the repository, unless another delivery has been quicker: then read that one."""
    learned = await session.execute(
        update(Repository)
        .where(Repository.id == repository.id, Repository.host_id.is_(None))
        .values(host_id=host_id)
        .returning(Repository.id)
        .execution_options(synchronize_session=False)
    )
    if learned.first() is not None:
        logger.info("repository %d has the ID %s at its host", repository.id, host_id)
    await session.refresh(repository, ["host_id"])


async def note_rename(session: AsyncSession, repository: Repository, hosted: HostedRepository) -> None:
    """Write down what a repository is called now. Its address stays what an operator has connected."""
    if repository.full_name is None or is_named(repository, hosted):
        return
    repository.full_name = names_of(hosted, is_https=repository.url.startswith("https://"))[0]
    await session.flush()
    logger.warning(
        "repository %d is called %s at its host now: connect it by that address, because whoever takes its old name "
        "is deployed from %s",
        repository.id,
        hosted.full_name,
        repository.url,
    )


def is_named(repository: Repository, hosted: HostedRepository) -> bool:
    """Whether the connected address names this repository, in small or capital letters, with or without `.git`.

    Hosts and ports are not compared: behind SSH aliases, tunnels and mirrors they are others than the host's own.
    """
    return repository.full_name in names_of(hosted, is_https=repository.url.startswith("https://"))


def names_of(hosted: HostedRepository, *, is_https: bool) -> list[str]:
    """The names that an address of this repository may have, in small letters, the likeliest first."""
    # A GitLab below a path has that path before the name, in addresses of HTTPS alone. There the page decides: on a
    # host below /git the address of `acme/shop` ends like the name of `git/acme/shop`.
    if is_https and hosted.address is not None:
        page = full_name(f"https://{hosted.address.partition('://')[2]}")
        if page is not None:
            return [page]
    return [hosted.full_name.lower()]


def is_of_other_host(repository: Repository, hosted: HostedRepository) -> bool:
    """Whether both have addresses of HTTPS that name different hosts: all repositories of an application are of one."""
    if hosted.address is None or not repository.url.startswith("https://"):
        return False
    return _host(repository.url) != _host(hosted.address)


def _host(address: str) -> str:
    try:
        return (urlsplit(address).hostname or "").removeprefix("www.")
    except ValueError:
        return ""


def describe_other(repository: Repository, hosted: HostedRepository) -> str:
    """Why `hosted` is not the connected repository, and what to do where it is meant to be."""
    if repository.host_id is not None and is_named(repository, hosted):
        return _describe_new_one(repository, hosted)
    known = "" if repository.host_id is None else f" (ID {repository.host_id})"
    return (
        f"It is about the repository {_name(hosted)}, and this webhook is of {repository.url}{known}. Where both are "
        f"the same, {_advise(repository, hosted)}"
    )


def _describe_new_one(repository: Repository, hosted: HostedRepository) -> str:
    return (
        f"It is about {_name(hosted)}, which has the name of {repository.url} but another ID than "
        f"{repository.host_id}: the repository was removed and made anew, or another one has its name now. To deploy "
        f"from the new one, {_advise(repository, hosted)}"
    )


def _advise(repository: Repository, hosted: HostedRepository) -> str:
    if hosted.id is None:
        return "connect the repository again by its present address."
    return f"run `pharos repository set {repository.id} --host-id '{hosted.id}'`, and deliver it again."


def _name(hosted: HostedRepository) -> str:
    return hosted.full_name if hosted.id is None else f"{hosted.full_name} (ID {hosted.id})"
