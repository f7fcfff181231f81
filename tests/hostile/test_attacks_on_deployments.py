"""Attacks on deployments fail, and the neighbour's callers are served.

`tests/deployer` has smaller tests of the same attacks.
"""

import os
from pathlib import Path

import pytest

from tests.hostile import faulty_switches, operators_keys, port_takeover
from tests.support.ssh_server import SSHD, ssh_server

pytestmark = [pytest.mark.full, pytest.mark.skipif(os.geteuid() != 0, reason="needs users of its own")]


async def test_taking_the_port_of_a_crashed_neighbour_captures_no_request() -> None:
    outcome = await port_takeover.attack(1)
    assert (outcome.stolen["port"], outcome.stolen["cookie"], outcome.stolen["request"]) == (1, 0, 0)
    assert outcome.neighbours.seen == {"200": 12}


@pytest.mark.skipif(not SSHD.exists(), reason="needs openssh-server")
def test_a_build_reads_no_key_of_the_operator_and_signals_no_process(tmp_path: Path) -> None:
    with ssh_server(tmp_path) as port:
        report = operators_keys.attack_ordinary_user(tmp_path / "key", port)
    if not report.pop("has_namespaces"):
        pytest.skip("this kernel grants ordinary users no namespaces")
    assert report.pop("seen").keys() == {"200"}
    assert not any(report.values()), report


@pytest.mark.parametrize("name", faulty_switches.FAULTS)
async def test_a_fault_of_one_application_does_not_affect_the_neighbour(name: str) -> None:
    row = await faulty_switches.attack(name)
    assert "503" not in f"{row[2]}{row[3]}" and str(row[3]).startswith("same process"), row
    assert "failed" not in str(row[1]) and "GONE" not in str(row[1]), row
