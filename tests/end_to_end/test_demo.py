"""`pharos up --demo`: a shop to click through, and a first report that is not empty."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.demo_checks import check_first_report, check_second_start
from tests.support.demo_platform import running_demo
from tests.support.platform_process import PHAROS, PlatformProcess, platform_process

_DAYS = 90


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    """One demo with all past visits of the product.

    `tests/web_dashboard/test_pages.py` makes the same checks on its demo of 7 days: each demo costs 24 s of CPU.
    """
    # As people type it: git, which makes the commits, runs in another folder.
    data = Path(os.path.relpath(tmp_path_factory.mktemp("demo") / "demo"))
    with running_demo(data, [str(PHAROS)]) as platform:
        yield platform


@pytest.mark.full
def test_the_first_report_shows_past_visits_and_live_clicks(demo: PlatformProcess) -> None:
    check_first_report(demo, _DAYS)


# Four minutes of CPU, which other tests may take from it.
@pytest.mark.full
@pytest.mark.timeout(1500)
def test_a_second_start_does_not_repeat_past_visits(demo: PlatformProcess) -> None:
    check_second_start(demo)


def test_the_demo_requires_a_folder_of_its_own_and_the_first_site(tmp_path: Path) -> None:
    with platform_process(tmp_path / "demo") as platform:
        assert platform.run("site", "remove", "1", "--yes").returncode == 0
        assert platform.stop() == 0
    done = platform.run("up", "--demo", "--port", "0")
    assert done.returncode == 1
    assert "has an installation without the demo, which would change it" in done.stderr
    (platform.data / "demo.json").write_text("{}")
    done = platform.run("up", "--demo", "--port", "0")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "pharos: The demo needs the first site: Site 1 was removed. Leave --demo out."
    )
