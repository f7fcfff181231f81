"""The commands in next steps exist."""

import re

import pytest

from operator_cli.api.next_steps import _NEXT_STEPS, next_step
from operator_cli.grammar.build_parser import build_parser
from pipeline_contracts import errors

_COMMAND = re.compile(r"`pharos ([^`]+)`")


@pytest.mark.parametrize("slug", _NEXT_STEPS)
def test_the_type_and_the_commands_of_a_next_step_exist(slug: str) -> None:
    assert slug in {each.slug for each in vars(errors).values() if hasattr(each, "slug")}
    for command in _COMMAND.findall(_NEXT_STEPS[slug]):
        name, *words = command.split()
        verbs = build_parser(name).verbs()
        assert verbs is not None
        inner = verbs.choices[name].verbs()
        assert inner is None or not words or words[0] in inner.choices


def test_a_next_step_is_left_out_if_the_document_lacks_what_it_names() -> None:
    assert next_step("deploy-running", {}) == ""
    assert next_step("unknown", {}) == ""
    assert "`pharos cancel 3`" in next_step("deploy-running", {"active_deployment_id": 3})
