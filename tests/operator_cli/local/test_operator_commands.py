"""Commands for all accounts, over the operator socket of `pharos up` and directly on the engines."""

import json
from pathlib import Path

from operator_cli.local.operator_socket import post_to_socket
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.key_directory.redis import open_redis_key_directory
from tests.support.commands import RunCommand, command_runner, expect_refusal, run_json, run_text
from tests.support.platform_process import PlatformProcess
from tests.support.published_keys import create_published_key

_OWNER = ("--owner-name", "Ada", "--owner-email", "ADA@b.example")


def _check_account_commands(pharos: RunCommand) -> str:
    """Create an account with a token, and return the token."""
    output = run_text(pharos, "account", "create", "Beta [red] Ltd", *_OWNER)
    assert output.startswith("Account beta-red-ltd (acc_") and "its owner is ada@b.example." in output
    assert "pharos token create --local --account beta-red-ltd" in output
    output = run_text(pharos, "account", "set-limit", "beta-red-ltd", "--rate", "0.5", "--burst", "4000000")
    assert output == "The account beta-red-ltd may send 0.5 events a second, 4,000,000 at once.\n"
    (line,) = [line for line in run_text(pharos, "account", "list").splitlines() if "beta-red-ltd" in line]
    assert "Beta [red] Ltd" in line and line.split()[-4:] == ["1", "0", "0.5", "4,000,000"]
    (account,) = [one for one in run_json(pharos, "account", "list") if one["slug"] == "beta-red-ltd"]
    assert account["id"] in run_text(pharos, "account", "list", "--quiet").split()
    message = expect_refusal(pharos, "account", "create", "Beta [red] Ltd", *_OWNER)
    assert message == "There is an account with the slug beta-red-ltd already."
    message = expect_refusal(
        pharos, "account", "set-limit", "nobody", "--rate", "1", "--burst", "1", status=5
    )
    assert message == "There is no account nobody."
    token = run_json(pharos, "token", "create", "--local", "--account", "beta-red-ltd", "--expires", "1h")
    return str(token["api_token"])


def test_accounts_and_a_first_token_on_a_running_platform(on_socket: PlatformProcess) -> None:
    token = _check_account_commands(on_socket.run)
    answer = on_socket.request("GET", "/api/v1/account", headers={"Authorization": f"Bearer {token}"})
    assert (answer.status, answer.json["data"]["slug"]) == (200, "beta-red-ltd")


async def test_accounts_and_a_first_token_on_engines(
    on_engines: RunCommand, own_database_url: str, own_redis_url: str
) -> None:
    """The limit takes effect at the edges immediately, because it is stored in Redis with each key."""
    key = await create_published_key(own_database_url, own_redis_url)
    run_text(on_engines, "account", "set-limit", "acme", "--rate", "77", "--burst", "88")
    directory = await open_redis_key_directory(own_redis_url, follow=False)
    entry = await directory.find(digest_credential(key))
    await directory.close()
    assert entry is not None and entry.limit == RateLimit(77, 88)
    _check_account_commands(on_engines)
    done = on_engines(
        "account", "set-limit", "acme", "--rate", "5", "--burst", "5", without=("PHAROS_REDIS_URL",)
    )
    assert (done.returncode, done.stderr.count("follow within a minute")) == (0, 1)


def test_arguments_are_checked_before_the_installation_is_looked_for(tmp_path: Path) -> None:
    run = command_runner(tmp_path)
    for arguments, message in (
        (("account", "create", "Beta"), "the following arguments are required: --owner-name, --owner-email"),
        (("account", "set-limit", "1", "--rate", "fast", "--burst", "1"), "invalid float value: 'fast'"),
    ):
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
    assert (
        "Nothing runs on .pharos. Go to the folder where Pharos started, name its data folder with --data DIR, or "
        "start `pharos up"
    ) in expect_refusal(run, "account", "list")


def test_a_platform_of_another_version_says_so(on_socket: PlatformProcess) -> None:
    body = json.dumps({"operator": "ada", "request": {"type": "from-the-future"}}).encode()
    status, content = post_to_socket(on_socket.data, "/calls", body)
    assert status == 422
    assert "This version does not understand the request" in json.loads(content)["detail"]
