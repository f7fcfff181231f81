"""One installation for the tests of a module, each with its own projects."""

from collections.abc import Iterator, Mapping

import pytest

from tests.support.installation import Installation, running_installation


@pytest.fixture(scope="module")
def deploy_settings() -> Mapping[str, str]:
    """Settings of the installation. A module that needs some overrides this fixture."""
    return {}


@pytest.fixture(scope="module")
def installation(
    tmp_path_factory: pytest.TempPathFactory, deploy_settings: Mapping[str, str]
) -> Iterator[Installation]:
    with running_installation(tmp_path_factory.mktemp("deploys"), **deploy_settings) as created:
        yield created
