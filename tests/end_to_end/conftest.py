"""One running platform that the tests of this folder share. Each test uses new batch IDs."""

from collections.abc import Iterator

import pytest

from tests.support.platform_process import PlatformProcess, platform_process


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    # The default name of the data folder, so that commands next to it need no --data.
    with platform_process(tmp_path_factory.mktemp("platform") / ".pharos") as process:
        yield process
