"""`pharos site`, `sites` and `report` on both kinds of installation: a running `pharos up`, and the engines of
separate processes."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline_contracts.credentials import digest_credential
from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.clickhouse_server import open_clickhouse_server
from storage_backends.key_directory.redis import open_redis_key_directory
from tests.support.commands import RunCommand, command_runner, expect_refusal, run_json, run_text
from tests.support.platform_process import PlatformProcess


@pytest.fixture(scope="module")
async def extra_settings(clickhouse_url: str) -> Mapping[str, str]:
    """Events are read from ClickHouse as well."""
    store = await open_clickhouse_server(clickhouse_url)
    await apply_schema(store)
    await store.close()
    return {"PHAROS_CLICKHOUSE_URL": clickhouse_url}


def test_sites_are_created_listed_changed_and_shown(pharos: RunCommand) -> None:
    domains = ("--domain", "https://shop.example", "--domain", "*.shop.example")
    created = run_json(
        pharos, "site", "create", *domains, "--timezone", "Europe/Oslo", "--name", "Shop [red]"
    )
    number = str(created["id"])
    assert (created["name"], created["timezone"]) == ("Shop [red]", "Europe/Oslo")
    assert created["domains"] == ["https://shop.example", "https://*.shop.example"]
    assert run_json(pharos, "sites") == run_json(pharos, "site", "list")
    output = run_text(pharos, "site", "add-domain", number, "http://localhost:8080")
    assert output == (
        f"Site {number} accepts events from https://shop.example, https://*.shop.example, http://localhost:8080.\n"
    )
    output = run_text(pharos, "site", "remove-domain", number, "https://*.shop.example")
    assert output == f"Site {number} accepts events from https://shop.example, http://localhost:8080.\n"
    output = run_text(pharos, "site", "set-timezone", number, "Asia/Kathmandu")
    assert output == f"The days of site {number} are those of Asia/Kathmandu.\n"
    bought = run_json(pharos, "site", "goal", number, "--event", "purchase", "--name", "Purchase")
    output = run_text(pharos, "site", "goal", number, "--path", "/welcome")
    assert output.endswith(f" of site {number}: /welcome\n")
    shown = run_text(pharos, "site", "show", number)
    for part in (
        "Shop [red]",
        created["tracker_id"],
        "https://shop.example\n             http://localhost:8080\n",
        "Asia/Kathmandu",
        "none yet",
        "nothing in the last 30 days",
        "event purchase",
        "page /welcome",
        f'/tracker/v1.js" data-site="{created["tracker_id"]}"></script>\n',
    ):
        assert part in shown, part
    assert (
        run_text(pharos, "site", "remove-goal", number, str(bought["id"]))
        == f"Goal {bought['id']} is removed.\n"
    )
    assert [goal["path"] for goal in run_json(pharos, "site", "show", number)["goals"]] == ["/welcome"]
    for command in (["sites"], ["site", "list"]):
        output = run_text(pharos, *command)
        assert "Shop [red]" in output and created["tracker_id"] in output


def test_removing_a_site_requires_confirmation(pharos: RunCommand) -> None:
    created = run_json(pharos, "site", "create", "--domain", "https://gone.example")
    number = str(created["id"])
    run_json(pharos, "site", "goal", number, "--event", "purchase")
    assert expect_refusal(pharos, "site", "remove", number) == (
        f"Without a terminal nobody can be asked whether to remove site {number} with its goals, and refuse its "
        "events: add --yes to do it."
    )
    output = run_text(pharos, "site", "remove", number, "--yes")
    assert output == f"Site {number}, gone.example, is removed. Remove its script tag from the pages.\n"
    assert created["id"] not in [site["id"] for site in run_json(pharos, "sites")]
    for command in (["site", "remove", number, "--yes"], ["report", number]):
        assert f"There is no site {number};" in expect_refusal(pharos, *command)
    again = run_json(pharos, "site", "create", "--domain", "https://gone.example")
    assert again["id"] > created["id"]
    assert run_json(pharos, "site", "remove", str(again["id"]), "--yes") == {
        "id": again["id"],
        "name": "gone.example",
        "tracker_id": again["tracker_id"],
        "removed": True,
    }


def test_creating_a_site_prints_its_script_tag(on_socket: PlatformProcess, on_engines: RunCommand) -> None:
    """The tag has the address of the installation, or a placeholder without one."""
    host = on_socket.credentials["base_url"].removesuffix("/api")
    for run, expected in ((on_socket.run, host), (on_engines, "https://your-host")):
        output = run_text(run, "site", "create", "--domain", "https://tag.example")
        tracker_id = output.partition("tracker ID ")[2].partition(".")[0]
        tag = f'<script defer src="{expected}/tracker/v1.js" data-site="{tracker_id}"></script>'
        assert output.splitlines()[2].strip() == tag


def test_the_first_start_creates_a_site(on_socket: PlatformProcess) -> None:
    site = on_socket.credentials["site"]
    shown = run_json(on_socket.run, "site", "show", str(site["id"]))
    assert (shown["name"], shown["tracker_id"], shown["domains"]) == (
        "My site",
        site["tracker_id"],
        [site["origin"]],
    )


async def test_a_site_created_on_engines_is_known_at_the_edges(
    on_engines: RunCommand, own_redis_url: str
) -> None:
    """The site is in Redis at once."""
    created = run_json(on_engines, "site", "create", "--domain", "https://edges.example")
    run_json(on_engines, "site", "add-domain", str(created["id"]), "https://two.example")
    digest = digest_credential(created["tracker_id"])
    directory = await open_redis_key_directory(own_redis_url, follow=False)
    entry = await directory.find(digest)
    await directory.close()
    run_json(on_engines, "site", "remove", str(created["id"]), "--yes")
    directory = await open_redis_key_directory(own_redis_url, follow=False)
    assert await directory.find(digest) is None
    await directory.close()
    assert entry is not None and entry.site is not None
    assert (entry.site.site_id, entry.site.origins) == (
        created["id"],
        ("https://edges.example", "https://two.example"),
    )


def test_a_report_without_visits_shows_the_script_tag(pharos: RunCommand) -> None:
    created = run_json(pharos, "site", "create", "--domain", "https://empty.example", "--name", "Empty")
    for site in (str(created["id"]), created["tracker_id"], "Empty"):
        output = run_text(pharos, "report", site, "--days", "7")
        assert "No visits in these days." in output
        assert f'/tracker/v1.js" data-site="{created["tracker_id"]}"></script>' in output
    report = run_json(pharos, "report", "Empty", "--days", "1", "--country", "no", "--path", "/a")
    assert report["site"]["id"] == created["id"]
    assert (report["period"]["days"], report["metrics"]["visits"]["value"]) == (1, 0)
    assert (report["filters"]["country"], report["filters"]["path"]) == ("NO", "/a")
    assert "with these filters" in run_text(pharos, "report", "Empty", "--device", "Mobile")


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (
            ["site", "create", "--domain", "https://x.example/path"],
            "is no origin: write https://shop.example",
        ),
        (["site", "create", "--domain", "x.example", "--timezone", "Mars"], "'Mars' is no time zone"),
        (["site", "create", "--domain", "x.example", "--project", "prj_no"], "There is no project prj_no;"),
        (["site", "show", "9999"], "There is no site 9999; `pharos site list` shows all."),
        (["site", "goal", "9999", "--event", "Web Vital"], "'Web Vital' is what the tracker sends by itself"),
        (["report", "9999"], "There is no site 9999; `pharos site list` shows all."),
        (["report", "Nobody"], "There is no site 'Nobody'; `pharos site list` shows all."),
        (["report", "1", "--days", "2"], "days must be one of 1, 7, 30, 90, 365."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_impossible_requests_fail_with_one_sentence(
    pharos: RunCommand, command: list[str], output: str
) -> None:
    assert output in expect_refusal(pharos, *command)


def test_without_clickhouse_the_configuration_is_shown(on_engines: RunCommand) -> None:
    without = ("PHAROS_CLICKHOUSE_URL",)
    created = on_engines("site", "create", "--domain", "https://alone.example", "--json", without=without)
    number = str(json.loads(created.stdout)["id"])
    shown = on_engines("site", "show", number, without=without)
    assert shown.returncode == 0 and shown.stdout.count("not known") == 2
    done = on_engines("report", number, without=without)
    assert done.returncode == 1 and "Set PHAROS_CLICKHOUSE_URL as well" in done.stderr


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """The arguments are refused before any request."""
    for arguments, output in (
        (("site", "create"), "the following arguments are required: --domain"),
        (("site", "show", "first"), "invalid int value: 'first'"),
        (("site", "goal", "1"), "one of the arguments --event --path is required"),
        (("site", "goal", "1", "--event", "a", "--path", "/a"), "not allowed with argument"),
        (("site",), "the following arguments are required: ACTION"),
        (("report",), "the following arguments are required: SITE"),
    ):
        done = command_runner(tmp_path)(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr
