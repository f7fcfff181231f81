"""Finds the object that an argument names: by ID, the beginning of an ID, slug or name.

If only one object exists, the argument may be left out. If several match, the error lists their names. Several projects
or environments may have a default: see `operator_cli.api.default_environment`. `effect` is what the command does there;
by default it changes something, so that a new command takes no project from the folder by mistake.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from operator_cli.api.choose import choose, find_matching
from operator_cli.api.client import Api
from operator_cli.api.default_environment import (
    VARIABLE,
    Effect,
    find_project_of_folder,
    note_default,
    read_default_environment,
)
from operator_cli.api.problems import ApiRefused
from operator_cli.errors import CommandFailed, UsageError

T = TypeVar("T")
Row = Mapping[str, Any]
"""An object in a list of the API."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project with its environments."""

    id: str
    slug: str
    name: str
    document: Row
    """The object as `GET /v1/projects` returns it."""


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment and its project."""

    id: str
    slug: str
    name: str
    project: Project
    document: Row
    """The object as `GET /v1/projects` embeds it."""

    @property
    def path(self) -> str:
        """`PROJECT/ENVIRONMENT`, as commands accept it."""
        return f"{self.project.slug}/{self.slug}"


def resolve_project(
    api: Api, name: str | None, *, option: str = "--project ", effect: Effect = Effect.CHANGES
) -> Project:
    """Return the project with this slug, name, ID or number; the default or the only one for None. Raises
    `CommandFailed`.

    `option` is what stands before the name on the command line, empty for a positional argument.
    """
    if name is None and (default := _find_default_project(api, effect)) is not None:
        _check_folder(
            api,
            default,
            effect,
            lambda one, other: f"add `{option}{one.slug}` or `{option}{other.slug}` to the command",
        )
        note_default(api, default.project.slug, default.source)
        return default.project
    return _find_project(api, name, option=option)


def resolve_environment(
    api: Api,
    name: str | None,
    project: str | None = None,
    *,
    option: str = "--environment ",
    effect: Effect = Effect.CHANGES,
) -> Environment:
    """Return the environment with this name; the default or the only one for None. Raises `CommandFailed`.

    `name` is `production`, `shop/production`, an ID or a number. `project` is the `--project` of a command. `option`
    is what stands before the name on the command line, empty for a positional argument.
    """
    if name is None and project is None and (default := read_default_environment()) is not None:
        with _naming_variable(default):
            environment = _find_environment(api, default)
        _check_folder(
            api,
            _Default(environment.project, VARIABLE),
            effect,
            lambda _, other: (
                f"add `{option}{environment.path}` or `{option}{_describe_example(other)}` to the command"
            ),
        )
        note_default(api, environment.path, VARIABLE)
        return environment
    return _find_environment(api, name, project, option=option, effect=effect)


def _find_project(api: Api, name: str | None, *, option: str = "--project ") -> Project:
    if name is not None and name.isdecimal():
        name = str(api.get("projects", name)["id"])
    projects = _list_projects(api)
    return choose(
        projects,
        name,
        noun="project",
        keys=_keys_of_project,
        label=lambda project: project.slug,
        how=lambda: _describe_argument(option, min(each.slug for each in projects)),
    )


def _find_environment(
    api: Api,
    name: str | None,
    project: str | None = None,
    *,
    option: str = "--environment ",
    effect: Effect = Effect.CHANGES,
) -> Environment:
    if name is not None and name.isdecimal():
        name = str(api.get("environments", name)["id"])
    if name is not None and "/" in name:
        if project is not None:
            raise UsageError(f"{name!r} and --project both name a project: leave one of them out.")
        project, name = name.split("/", 1)
    projects = _list_projects(api) if project is None else [_find_project(api, project)]
    environments = [environment for each in projects for environment in _environments_of(each)]
    where = "" if project is None else f" in the project {projects[0].slug}"
    if project is None and len(_select(environments, name)) > 1:
        default = _find_default_project(api, effect)
        if default is not None and _select(_environments_of(default.project), name):
            # Only a name gets here with the variable.
            _check_folder(
                api,
                default,
                effect,
                lambda *projects: f"write {_describe_paths(projects, name)} instead of {name!r}",
            )
            note_default(api, default.project.slug, default.source)
            environments, where = _environments_of(default.project), f" in the project {default.project.slug}"
    return choose(
        environments,
        name,
        noun="environment",
        keys=_keys_of_environment,
        label=lambda environment: environment.path,
        where=where,
        how=lambda: _describe_ways_to_name(environments, option),
    )


def _describe_ways_to_name(environments: Sequence[Environment], option: str) -> str:
    example = _choose_example(environments).path
    return f"{_describe_argument(option, example)}, or set {VARIABLE}={example}"


def _choose_example(environments: Sequence[Environment]) -> Environment:
    """Return an environment that people are likely to mean: not a preview."""
    return min(environments, key=lambda each: (each.document.get("type") != "production", each.path))


def _describe_paths(projects: Sequence[Project], name: str | None) -> str:
    """Return the environments of this name in the projects, as commands accept them."""
    return " or ".join(
        environment.path for each in projects for environment in _select(_environments_of(each), name)
    )


def _describe_example(project: Project) -> str:
    environments = _environments_of(project)
    return _choose_example(environments).path if environments else f"{project.slug}/ENVIRONMENT"


def _describe_argument(option: str, example: str) -> str:
    return "Add one of them to the command" + (f" (`{option}{example}`)" if option else "")


def _select(environments: Sequence[Environment], name: str | None) -> Sequence[Environment]:
    return environments if name is None else find_matching(environments, name, _keys_of_environment)


@dataclass(frozen=True, slots=True)
class _Default:
    """The default project, and what names it: the variable, or the folder."""

    project: Project
    source: str


def _find_default_project(api: Api, effect: Effect) -> _Default | None:
    """Return the project of `PHAROS_DEFAULT_ENVIRONMENT`; without the variable, and unless the command changes
    something, the project of the repository of the current folder. Raises `CommandFailed`."""
    if (default := read_default_environment()) is not None:
        project, slash, _ = default.partition("/")
        with _naming_variable(default):
            # Not by its environment, which a command may be about to create.
            found = _find_project(api, project) if slash else _find_only_project(api, default)
        return _Default(found, VARIABLE)
    in_folder = None if effect is Effect.CHANGES else _find_project_of_folder(api)
    return None if in_folder is None else _Default(in_folder, "its repository is in this folder")


def _find_project_of_folder(api: Api) -> Project | None:
    """Return the one of several projects that is connected to the repository of the current folder."""
    projects = _list_projects(api)
    identifier = find_project_of_folder(api, Path.cwd()) if len(projects) > 1 else None
    return next((each for each in projects if each.id == identifier), None)


def _check_folder(
    api: Api, default: _Default, effect: Effect, advise: Callable[[Project, Project], str]
) -> None:
    """Raise `CommandFailed` if the variable and the folder name different projects, and the command does not only read.

    `advise` gets the project of the variable and that of the folder, and returns what to write in the command.
    """
    if effect is Effect.READS or default.source != VARIABLE:
        return
    in_folder = _find_project_of_folder(api)
    if in_folder is not None and in_folder.id != default.project.id:
        raise CommandFailed(
            f"{VARIABLE} names the project {default.project.slug}, but the repository of this folder belongs to the "
            f"project {in_folder.slug}: {advise(default.project, in_folder)}."
        )


def _find_only_project(api: Api, environment: str) -> Project:
    """Return the project of an environment that is named without its project. Raises `CommandFailed`."""
    return choose(
        list_environments(api),
        environment,
        noun="environment",
        keys=_keys_of_environment,
        label=lambda each: each.path,
    ).project


@contextmanager
def _naming_variable(value: str) -> Iterator[None]:
    """Add to an error that the name comes from the environment variable."""
    try:
        yield
    except CommandFailed as error:
        error.args = (f"{VARIABLE} is {value!r}: {error} Correct it, or unset it.",)
        raise


def resolve_row(
    api: Api,
    *path: str | int,
    name: str | None,
    noun: str,
    keys: Sequence[str] = ("id", "slug", "name"),
    label: str = "name",
) -> Row:
    """Return the row of a list of the API of which a member in `keys` equals `name`; the only row for None.

    `resolve_row(api, "monitors", "heartbeats", name=arguments.heartbeat, noun="heartbeat")`. `label` is the member
    that error messages list. Raises `CommandFailed`.
    """
    return choose(
        api.list_once(*path),
        name,
        noun=noun,
        keys=lambda row: [str(row.get(key) or "") for key in keys],
        label=lambda row: str(row[label]),
    )


def request_first(parents: Iterable[T], request: Callable[[T], Any]) -> tuple[T, Any] | None:
    """Return the first parent for which `request` does not get 404, with the response; None without one.

    This is for objects whose number is unique in the installation, such as deliveries: people name them by the number
    alone, but the API needs parent and number. Raises `CommandFailed`.
    """
    for parent in parents:
        try:
            return parent, request(parent)
        except ApiRefused as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
    return None


def list_projects(api: Api, name: str | None = None) -> list[Project]:
    """Return all projects that the caller may read, or the one of this name. Raises `CommandFailed`."""
    return _list_projects(api) if name is None else [resolve_project(api, name)]


def list_environments(api: Api) -> list[Environment]:
    """Return all environments that the caller may read. Raises `CommandFailed`."""
    return [environment for project in _list_projects(api) for environment in _environments_of(project)]


def _list_projects(api: Api) -> list[Project]:
    return [Project(row["id"], row["slug"], row["name"], row) for row in api.list_once("projects")]


def _environments_of(project: Project) -> list[Environment]:
    return [
        Environment(row["id"], row["slug"], row["name"], project, row)
        for row in project.document["environments"]
    ]


def _keys_of_project(project: Project) -> Sequence[str]:
    return project.id, project.slug, project.name


def _keys_of_environment(environment: Environment) -> Sequence[str]:
    return environment.id, environment.slug, environment.name
