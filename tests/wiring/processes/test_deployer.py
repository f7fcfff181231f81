"""The deployer as a process: a folder that cannot be used is reported in one sentence."""

import socket
from pathlib import Path

import pytest

from pipeline_contracts.settings import BadSettings, Settings
from wiring.processes.deployer import run_deployer


async def test_unusable_folder_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for folder, reason in ((file, "File exists"), (Path("/proc/pharos"), "No such file or directory")):
        settings = Settings(
            database_url="sqlite+aiosqlite:///unused", variables_key="k" * 32, deploy_folder=str(folder)
        )
        with socket.socket() as server, socket.socket() as apps, pytest.raises(BadSettings) as fault:
            async with run_deployer(settings, server, apps=apps, stops=True):
                pass
        assert str(fault.value).startswith(f"PHAROS_DEPLOY_FOLDER: {folder} cannot be used: {reason}. Set it")
