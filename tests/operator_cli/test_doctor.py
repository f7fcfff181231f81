"""`pharos doctor`."""

import json

import pytest

from operator_cli.grammar.build_parser import build_parser


@pytest.mark.parametrize("as_json", [True, False])
def test_doctor_says_what_validates_request_bodies(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PHAROS_ACCELERATOR", "off")
    arguments = build_parser("doctor").parse_args(["doctor", *["--json"] * as_json])
    assert arguments.run(arguments) == 0
    printed = capsys.readouterr().out
    validator = "Python (PHAROS_ACCELERATOR is off)"
    if as_json:
        assert json.loads(printed)["Request bodies are validated by"] == validator
    else:
        assert f"Request bodies are validated by  {validator}\n" in printed
