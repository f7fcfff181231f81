"""Requests to GitHub follow its REST API, and its responses become the right errors."""

import dataclasses
import time

import pytest
from aiohttp import web

from git_hosts.commit_statuses import CommitStatus, StatusRefused, StatusUnavailable
from git_hosts.github import commit_statuses as adapter
from git_hosts.github.commit_statuses import GitHubStatusClient, open_github_status_client
from pipeline_contracts.settings import BadSettings
from tests.control_workers.commit_statuses.fake_github import (
    TOKEN,
    DelayedResponse,
    FakeGitHub,
    ReceivedStatus,
    cut_connection,
    respond_with,
)
from tests.support.managed_project import REVISION

STATUS = CommitStatus(
    "acme/shop",
    REVISION,
    "success",
    "pharos/shop/production",
    "Deployment 7 has succeeded.",
    "http://production.shop.localhost:8090",
)


async def _refused(statuses: GitHubStatusClient, status: CommitStatus = STATUS) -> str:
    with pytest.raises(StatusRefused) as caught:
        await statuses.send_status(status)
    return str(caught.value)


async def _unavailable(statuses: GitHubStatusClient) -> StatusUnavailable:
    with pytest.raises(StatusUnavailable) as caught:
        await statuses.send_status(STATUS)
    return caught.value


async def test_a_status_is_posted_to_its_commit(github: FakeGitHub, statuses: GitHubStatusClient) -> None:
    await statuses.send_status(STATUS)
    assert github.paths == [f"/repos/acme/shop/statuses/{REVISION}"]
    assert github.accepted == [ReceivedStatus(**dataclasses.asdict(STATUS))]


async def test_a_status_without_a_link_has_no_target_url(
    github: FakeGitHub, statuses: GitHubStatusClient
) -> None:
    await statuses.send_status(dataclasses.replace(STATUS, target_url=None))
    assert [status.target_url for status in github.accepted] == [None]


@pytest.mark.parametrize("ending", ["", "/"])
async def test_the_api_url_may_have_a_path(ending: str) -> None:
    paths: list[str] = []

    async def take(request: web.Request) -> web.Response:
        paths.append(request.raw_path)
        return web.Response(status=201)

    app = web.Application()
    app.router.add_post("/{path:.*}", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/api/v3{ending}"
        async with open_github_status_client(TOKEN, url) as statuses:
            await statuses.send_status(STATUS)
    finally:
        await runner.cleanup()
    assert paths == [f"/api/v3/repos/acme/shop/statuses/{REVISION}"]


async def test_repository_names_cannot_change_the_path(
    github: FakeGitHub, statuses: GitHubStatusClient
) -> None:
    odd = dataclasses.replace(STATUS, repository="acme/shop?a#b/%2e", revision="../x y")
    await statuses.send_status(odd)
    assert github.paths == ["/repos/acme/shop%3Fa%23b%2F%252e/statuses/..%2Fx%20y"]
    assert (github.accepted[0].repository, github.accepted[0].revision) == (odd.repository, odd.revision)


@pytest.mark.parametrize("name", ["", "acme", "acme/", "/shop", "acme/..", "./shop"])
async def test_an_invalid_repository_is_refused_without_a_request(
    name: str, github: FakeGitHub, statuses: GitHubStatusClient
) -> None:
    assert "Connect the repository again" in await _refused(
        statuses, dataclasses.replace(STATUS, repository=name)
    )
    assert github.paths == []


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (200, "check that PHAROS_GITHUB_API_URL is the address of GitHub's API."),
        (401, "create a new token, set PHAROS_GITHUB_TOKEN to it, and restart Pharos."),
        (403, '"Commit statuses: write" (a classic token: the scope repo:status) for acme/shop.'),
        (404, "give the token in PHAROS_GITHUB_TOKEN access to acme/shop"),
        (410, "check that PHAROS_GITHUB_API_URL is the address of GitHub's API."),
        (422, f"check that acme/shop has the commit {REVISION}."),
    ],
)
async def test_a_refusal_says_how_to_fix_it(
    status: int, advice: str, github: FakeGitHub, statuses: GitHubStatusClient
) -> None:
    document = {"message": "Not so", "errors": ["odd", {"message": "sha: No commit\n found"}, {"code": "x"}]}
    github.rule = respond_with(status, document)
    message = await _refused(statuses)
    assert message.startswith(f"GitHub answers {status} (Not so: sha: No commit found): ")
    assert advice in message


async def test_redirects_are_not_followed(github: FakeGitHub, statuses: GitHubStatusClient) -> None:
    github.rule = respond_with(307, Location=f"{github.url}/repos/acme/new/statuses/{REVISION}")
    assert "connect it under its new name" in await _refused(statuses)
    assert len(github.paths) == 1


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (403, {"Retry_After": "30"}, 30.0),
        (429, {"Retry_After": "30"}, 30.0),
        (429, {}, 60.0),
        (429, {"Retry_After": "soon"}, 60.0),
        (403, {"X_RateLimit_Remaining": "0"}, 60.0),
        (403, {"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": "1"}, 1.0),
        (503, {"Retry_After": "5"}, 5.0),
        (500, {}, None),
        (502, {}, None),
        (408, {}, None),
    ],
)
async def test_transient_errors_are_retried_later(
    status: int,
    headers: dict[str, str],
    seconds: float | None,
    github: FakeGitHub,
    statuses: GitHubStatusClient,
) -> None:
    github.rule = respond_with(status, {"message": "Not now"}, **headers)
    assert (await _unavailable(statuses)).retry_after == seconds
    github.rule = None
    await statuses.send_status(STATUS)
    assert github.states() == ["success"]


async def test_a_rate_limit_lasts_until_its_reset(github: FakeGitHub, statuses: GitHubStatusClient) -> None:
    reset = int(time.time()) + 1000
    github.rule = respond_with(403, X_RateLimit_Remaining="0", X_RateLimit_Reset=str(reset))
    seconds = (await _unavailable(statuses)).retry_after
    assert seconds is not None and 0 < seconds <= 1000


async def test_a_rate_limit_is_recognized_by_its_message(
    github: FakeGitHub, statuses: GitHubStatusClient
) -> None:
    github.rule = respond_with(403, {"message": "You have exceeded a secondary rate limit."})
    assert (await _unavailable(statuses)).retry_after == 60.0


async def test_an_unreachable_github_is_unavailable(github: FakeGitHub) -> None:
    url = github.url.rpartition(":")[0] + ":1"
    async with open_github_status_client(TOKEN, url) as statuses:
        assert "cannot be reached" in str(await _unavailable(statuses))


async def test_a_broken_connection_is_unavailable(github: FakeGitHub, statuses: GitHubStatusClient) -> None:
    github.responses.append(cut_connection())
    assert "cannot be reached" in str(await _unavailable(statuses))


async def test_a_github_that_hangs_times_out(github: FakeGitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_TIMEOUT_SECONDS", 0.2)
    github.rule = DelayedResponse()
    async with open_github_status_client(TOKEN, github.url) as statuses:
        assert "has not answered" in str(await _unavailable(statuses))


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[1]", b"[" * 60_000, b'{"message": 7, "errors": 7}', b"\xff", b"x" * 2**22]
)
async def test_any_error_body_is_a_refusal(
    body: bytes, github: FakeGitHub, statuses: GitHubStatusClient
) -> None:
    async def respond(request: web.Request, status: ReceivedStatus) -> web.Response:
        return web.Response(status=404, body=body)

    github.rule = respond
    assert (await _refused(statuses)).startswith("GitHub answers 404: ")


@pytest.mark.parametrize("status", [401, 403, 404, 422, 429, 500])
async def test_no_error_repeats_the_token(
    status: int, github: FakeGitHub, statuses: GitHubStatusClient
) -> None:
    async def echo(request: web.Request, status: ReceivedStatus) -> web.Response:
        document = request.headers["Authorization"]
        return web.json_response(
            {"message": document, "errors": [{"message": document}]}, status=status, reason=document
        )

    github.rule = echo
    with pytest.raises((StatusRefused, StatusUnavailable)) as caught:
        await statuses.send_status(STATUS)
    assert TOKEN not in f"{caught.value!r} {caught.value} {caught.value.__cause__} {caught.getrepr()}"


async def test_the_token_is_not_in_any_repr(statuses: GitHubStatusClient) -> None:
    assert TOKEN not in f"{statuses!r} {statuses} {statuses._session!r}"


@pytest.mark.parametrize(
    ("token", "url", "message"),
    [
        ("two words", "https://api.github.com", "PHAROS_GITHUB_TOKEN: a token has only printable"),
        ("line\nbreak", "https://api.github.com", "PHAROS_GITHUB_TOKEN: a token has only printable"),
        ("ünicode", "https://api.github.com", "PHAROS_GITHUB_TOKEN: a token has only printable"),
        (TOKEN, "", "PHAROS_GITHUB_API_URL: must be"),
        (TOKEN, "api.github.com", "PHAROS_GITHUB_API_URL: must be"),
        (TOKEN, "ftp://api.github.com", "PHAROS_GITHUB_API_URL: must be"),
        (TOKEN, "https://", "PHAROS_GITHUB_API_URL: must be"),
        (TOKEN, "https://me:word@api.github.com", "PHAROS_GITHUB_API_URL: must be"),
        (TOKEN, "https://api.github.com?a", "PHAROS_GITHUB_API_URL: must be"),
        (TOKEN, "https://api.github.com:port", "PHAROS_GITHUB_API_URL: must be"),
        (TOKEN, "https://[api", "PHAROS_GITHUB_API_URL: must be"),
        (TOKEN, "http://api.github.com", "PHAROS_GITHUB_API_URL: must begin with https://"),
        (TOKEN, "http://10.0.0.7/api/v3", "PHAROS_GITHUB_API_URL: must begin with https://"),
    ],
)
async def test_invalid_settings_are_refused_at_startup(token: str, url: str, message: str) -> None:
    with pytest.raises(BadSettings) as caught:
        async with open_github_status_client(token, url):
            pass
    assert message in str(caught.value)
    assert token not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["https://api.github.com", "https://git.example/api/v3/", "http://localhost:1", "http://[::1]:1"],
)
async def test_valid_settings_are_accepted(url: str) -> None:
    async with open_github_status_client(TOKEN, url) as opened:
        assert isinstance(opened, GitHubStatusClient)
