"""The sample application of a first start, from its deployment to its responses."""

import http.client
from contextlib import closing
from typing import Any

from tests.support.installation import Installation


def _connected(installation: Installation) -> list[dict[str, Any]]:
    """Return the repositories of the first project."""
    project = installation.platform.credentials["project_id"]
    return [one for one in installation.run_json("repository", "list") if one["project"]["id"] == project]


def _ask(installation: Installation, path: str) -> tuple[int, str]:
    port = installation.apps_port
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path, headers={"Host": "production.my-project.localhost"})
        with connection.getresponse() as response:
            return response.status, response.read().decode()


def test_the_sample_is_deployed_with_one_command(installation: Installation) -> None:
    (connected,) = _connected(installation)
    assert connected["id"] == installation.platform.credentials["repository"]["id"]
    assert connected["url"] == str(installation.platform.data / "repository.git")
    done = installation.platform.run("deploy", "my-project/production")
    assert done.returncode == 0, (done.stdout, done.stderr)
    status, page = _ask(installation, "/")
    assert (status, "<h1>It runs</h1>" in page) == (200, True)
    assert _ask(installation, "/.git/HEAD")[0] == 404


def test_a_restart_keeps_the_single_sample_and_its_secret(installation: Installation) -> None:
    before = installation.platform.credentials, _connected(installation)
    installation.restart()
    assert (installation.platform.credentials, _connected(installation)) == before
