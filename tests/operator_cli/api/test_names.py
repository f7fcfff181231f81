"""Names in arguments, and the messages for names that match nothing or several objects."""

from typing import Any

import pytest

from operator_cli.api.client import Api
from operator_cli.api.names import resolve_environment, resolve_project, resolve_row
from operator_cli.errors import CommandFailed, NoSuchName, UsageError
from tests.support.fake_api import Answer, FakeApi, page


def _project(slug: str, *environments: str, name: str | None = None) -> dict[str, Any]:
    return {
        "id": f"prj_0123456789{slug}",
        "slug": slug,
        "name": name or slug.title(),
        "environments": [
            {"id": f"env_0123456789{slug}{each}", "slug": each, "name": each.title()} for each in environments
        ],
    }


@pytest.fixture
def shops(server: FakeApi) -> None:
    projects = [_project("shop", "production", "staging"), _project("blog", "production", name="shop")]
    server.by_path["/api/v1/projects"] = page(projects)
    server.by_path["/api/v1/repositories"] = page([])
    server.by_path["/api/v1/projects/2"] = Answer(content={"data": projects[1]})
    server.by_path["/api/v1/environments/12"] = Answer(content={"data": projects[0]["environments"][1]})


@pytest.mark.usefixtures("shops")
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("staging", "shop/staging"),
        ("Staging", "shop/staging"),
        ("STAGING", "shop/staging"),
        ("shop/production", "shop/production"),
        ("blog/production", "blog/production"),
        ("env_0123456789blogproduction", "blog/production"),
        ("env_0123456789b", "blog/production"),
        ("12", "shop/staging"),
        ("2/production", "blog/production"),
    ],
)
def test_an_environment_is_found_by_any_of_its_names(api: Api, name: str, path: str) -> None:
    assert resolve_environment(api, name).path == path


@pytest.mark.usefixtures("shops")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, "There are several environments: blog/production, shop/production, shop/staging. Add one of them to the "
         "command (`--environment blog/production`), or set PHAROS_DEFAULT_ENVIRONMENT=blog/production."),
        ("production", "'production' means several environments. Name one of them: blog/production, shop/production."),
        ("env_0123456789", "'env_0123456789' means several environments. Name one of them: blog/production, "
         "shop/production, shop/staging."),
        ("stagin", "There is no environment 'stagin'. Did you mean 'shop/staging'?"),
        ("shop/qqq", "There is no environment 'qqq' in the project shop. There are: shop/production, shop/staging."),
        ("shap/production", "There is no project 'shap'. Did you mean 'shop'?"),
    ],
)  # fmt: skip
def test_error_for_an_unknown_name_lists_names(api: Api, name: str | None, message: str) -> None:
    with pytest.raises(CommandFailed) as failed:
        resolve_environment(api, name)
    assert str(failed.value) == message
    assert failed.value.exit_status == (5 if "There is no" in message else 1)


@pytest.mark.usefixtures("shops")
def test_a_slug_comes_before_a_name(api: Api) -> None:
    """The project blog has the name "shop"."""
    assert resolve_project(api, "shop").slug == "shop"
    assert resolve_project(api, "2").slug == "blog"
    assert resolve_environment(api, "production", project="blog").path == "blog/production"


def test_a_project_is_named_once(api: Api) -> None:
    with pytest.raises(UsageError, match="both name a project"):
        resolve_environment(api, "shop/production", project="blog")


def test_the_only_one_needs_no_name(server: FakeApi, api: Api) -> None:
    server.answers.append(page([_project("shop", "production")]))
    assert resolve_environment(api, None).path == "shop/production"
    assert resolve_project(api, None).slug == "shop"
    assert len(server.requests) == 1


def test_missing_first_object_is_reported(server: FakeApi, api: Api) -> None:
    server.answers.append(page([_project("shop")]))
    with pytest.raises(NoSuchName, match="There is no environment yet"):
        resolve_environment(api, None)
    with pytest.raises(NoSuchName, match="There is no environment in the project shop yet"):
        resolve_environment(api, "shop/production")


def test_rows_of_other_lists_are_found_by_number_or_name(server: FakeApi, api: Api) -> None:
    server.by_path["/api/v1/monitors/heartbeats"] = page(
        [{"id": 7, "name": "backup"}, {"id": 8, "name": "7"}]
    )
    for name, number in (("7", 7), ("backup", 7), ("8", 8)):
        found = resolve_row(api, "monitors", "heartbeats", name=name, noun="heartbeat")
        assert found["id"] == number
    # An empty name does not match a row without a slug.
    with pytest.raises(NoSuchName):
        resolve_row(api, "monitors", "heartbeats", name="", noun="heartbeat")
    with pytest.raises(NoSuchName, match="There is no heartbeat 'bakcup'. Did you mean 'backup'"):
        resolve_row(api, "monitors", "heartbeats", name="bakcup", noun="heartbeat")
