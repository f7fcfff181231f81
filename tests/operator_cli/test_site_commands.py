"""`pharos site`, `sites` and `report` on a running `pharos up`."""

import argparse
from pathlib import Path

from operator_cli.api.client import Api
from operator_cli.sites.site import change_domains
from tests.support.commands import RunCommand, command_runner, expect_refusal, run_json, run_text
from tests.support.fake_api import Answer, problem, running_fake_api
from tests.support.platform_process import PlatformProcess

# Tests of other files create projects on the same platform.
MINE = ("--project", "my-project")


def test_sites_are_created_listed_changed_and_shown(pharos: RunCommand) -> None:
    domains = ("--domain", "https://shop.example", "--domain", "*.shop.example")
    created = run_json(pharos, "site", "create", "Shop [red]", *MINE, *domains, "--timezone", "Europe/Oslo")
    assert (created["name"], created["timezone"]) == ("Shop [red]", "Europe/Oslo")
    assert created["domains"] == ["https://shop.example", "https://*.shop.example"]
    assert run_json(pharos, "sites") == run_json(pharos, "site", "list")
    number = str(created["id"])
    output = run_text(pharos, "site", "add-domain", number, "HTTP://localhost:8080/")
    assert output == (
        "Site Shop [red] accepts events from https://shop.example, https://*.shop.example, "
        "http://localhost:8080.\n"
    )
    output = run_text(pharos, "site", "remove-domain", created["tracker_id"], "*.SHOP.example")
    assert output == "Site Shop [red] accepts events from https://shop.example, http://localhost:8080.\n"
    assert run_text(pharos, "site", "rename", "Shop [red]", "Shop") == (
        "Site Shop [red] is called Shop now.\n"
    )
    output = run_text(pharos, "site", "set-timezone", "Shop", "Asia/Kathmandu")
    assert output == "The days of site Shop are those of Asia/Kathmandu.\n"
    run_json(pharos, "site", "goal", "Shop", "--event", "purchase", "--name", "Purchase")
    assert run_text(pharos, "site", "goal", "Shop", "--path", "/welcome").endswith(
        " of site Shop: /welcome\n"
    )
    shown = run_text(pharos, "site", "show", number)
    for part in (
        "Shop\n",
        created["tracker_id"],
        "https://shop.example\n             http://localhost:8080\n",
        "Asia/Kathmandu",
        "none yet",
        "nothing in the last 30 days (counts can be 10 s old)",
        "event purchase",
        "page /welcome",
        f'/tracker/v1.js" data-site="{created["tracker_id"]}"></script>\n',
    ):
        assert part in shown, part
    assert run_text(pharos, "site", "remove-goal", "Shop", "Purchase") == (
        "Goal Purchase of site Shop is removed.\n"
    )
    assert [goal["path"] for goal in run_json(pharos, "site", "show", "Shop")["goals"]] == ["/welcome"]
    output = run_text(pharos, "sites")
    assert "Shop" in output and created["tracker_id"] in output


def test_domains_that_a_site_cannot_lose(pharos: RunCommand) -> None:
    number = str(run_json(pharos, "site", "create", *MINE, "--domain", "https://one.example")["id"])
    assert expect_refusal(pharos, "site", "remove-domain", number, "two.example") == (
        "Site one.example has no domain https://two.example; it has https://one.example."
    )
    assert expect_refusal(pharos, "site", "remove-domain", number, "one.example") == (
        "https://one.example is the only domain of site one.example. Add another one first: "
        f"`pharos site add-domain {number} ORIGIN`."
    )


def test_a_domain_is_not_lost_by_a_concurrent_change() -> None:
    """The site is read again after a 412, and changed with its new ETag."""
    arguments = argparse.Namespace(verb="add-domain", origin="https://new.example")
    with running_fake_api() as server, Api(server.target) as api:
        server.answers.extend(
            (
                Answer(content={"data": {"domains": ["https://a.example"]}}, headers={"ETag": "1"}),
                problem(412, "precondition-failed", "Somebody else has changed it."),
                Answer(content={"data": {"domains": ["https://b.example"]}}, headers={"ETag": "2"}),
                Answer(content={"data": {"id": 7}}),
            )
        )
        assert change_domains(arguments, api, {"id": 7, "name": "Shop"}) == {"id": 7}
    patches = [request for request in server.requests if request.method == "PATCH"]
    assert [request.headers["if-match"] for request in patches] == ["1", "2"]
    assert patches[1].body == {"domains": ["https://b.example", "https://new.example"]}


def test_removing_a_site_requires_confirmation(pharos: RunCommand) -> None:
    created = run_json(pharos, "site", "create", *MINE, "--domain", "https://gone.example")
    number = str(created["id"])
    assert expect_refusal(pharos, "site", "remove", "gone.example") == (
        f"Without a terminal, pharos cannot ask whether to remove site {number}, gone.example, with its goals, and "
        "refuse its events: add --yes to do it."
    )
    output = run_text(pharos, "site", "remove", number, "--yes")
    assert output == "Site gone.example is removed. Remove its script tag from the pages.\n"
    assert created["id"] not in [site["id"] for site in run_json(pharos, "sites")]
    for command in (["site", "remove", number, "--yes"], ["report", number]):
        message = expect_refusal(pharos, *command, status=5)
        assert message.startswith(f"There is no site '{number}'.")


def test_creating_a_site_prints_its_script_tag(on_socket: PlatformProcess) -> None:
    # `--name` is the spelling of earlier versions.
    output = run_text(
        on_socket.run, "site", "create", *MINE, "--domain", "https://tag.example", "--name", "Tag"
    )
    tracker_id = output.partition("tracker ID ")[2].partition(".")[0]
    host = on_socket.credentials["base_url"].removesuffix("/api")
    assert output.splitlines()[2].strip() == (
        f'<script defer src="{host}/tracker/v1.js" data-site="{tracker_id}"></script>'
    )


def test_the_first_start_creates_a_site(on_socket: PlatformProcess) -> None:
    site = on_socket.credentials["site"]
    shown = run_json(on_socket.run, "site", "show", str(site["id"]))
    assert (shown["name"], shown["tracker_id"], shown["domains"]) == (
        "My site",
        site["tracker_id"],
        [site["origin"]],
    )


def test_a_report_without_visits_shows_the_script_tag(pharos: RunCommand) -> None:
    created = run_json(pharos, "site", "create", "Empty", *MINE, "--domain", "https://empty.example")
    for site in (str(created["id"]), created["tracker_id"], "empty"):
        output = run_text(pharos, "report", site, "--days", "7")
        assert "No visitors yet in these days." in output
        assert f'/tracker/v1.js" data-site="{created["tracker_id"]}"></script>' in output
    report = run_json(pharos, "report", "Empty", "--days", "1", "--country", "no", "--path", "/a")
    assert report["site"]["id"] == created["id"]
    assert (report["period"]["days"], report["metrics"]["visits"]["value"]) == (1, 0)
    assert (report["filters"]["country"], report["filters"]["path"]) == ("NO", "/a")
    assert "with these filters" in run_text(pharos, "report", "Empty", "--device", "Mobile")


def test_impossible_requests_say_why(pharos: RunCommand) -> None:
    create = ("site", "create", *MINE, "--domain", "x.example")
    for command, status, message in (
        (
            ("site", "create", *MINE, "--domain", "x.example/path"),
            1,
            "is not an origin: write https://shop.example",
        ),
        ((*create, "--timezone", "Mars"), 1, "  timezone: must be the name of a time zone"),
        ((*create, "--project", "nobody"), 5, "There is no project 'nobody'."),
        ((*create, "Shop", "--name", "Other"), 2, "'Shop' and --name are two names"),
        (("site", "show", "9999"), 5, "There is no site '9999'."),
        (("site", "goal", "1", "--event", "Web Vital"), 1, "'Web Vital', which the tracker sends by itself"),
        (("site", "remove-goal", "1", "Signup"), 5, "There is no goal yet."),
        (("report", "My sit"), 5, "There is no site 'My sit'. Did you mean 'My site'?"),
        (("report", "1", "--days", "2"), 1, "  days: must be one of 1, 7, 30, 90, 365"),
    ):
        done = pharos(*command)
        assert (done.returncode, done.stdout) == (status, ""), done
        assert message in done.stderr, done


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """The arguments are refused before any request."""
    for arguments, output in (
        (("site", "create"), "the following arguments are required: --domain"),
        (("site", "goal", "1"), "one of the arguments --event --path is required"),
        (("site", "goal", "1", "--event", "a", "--path", "/a"), "not allowed with argument"),
        (("site",), "the following arguments are required: VERB"),
    ):
        done = command_runner(tmp_path)(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr
