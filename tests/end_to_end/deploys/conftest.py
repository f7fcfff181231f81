"""One installation for the tests of a module: each test has projects of its own on it."""

from collections.abc import Iterator, Mapping

import pytest

from tests.support.deploying import Deploying, deploying


@pytest.fixture(scope="module")
def deploy_settings() -> Mapping[str, str]:
    """What a module sets for its installation: it has a fixture of this name then."""
    return {}


@pytest.fixture(scope="module")
def installation(
    tmp_path_factory: pytest.TempPathFactory, deploy_settings: Mapping[str, str]
) -> Iterator[Deploying]:
    with deploying(tmp_path_factory.mktemp("deploys"), **deploy_settings) as made:
        yield made
