"""Slugs that are made from names."""

import pytest

from control_domain.slugs import choose_slug, make_slug
from pipeline_contracts.errors import InvalidInput


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("My Shop!", "my-shop"),
        ("  a  --  b  ", "a-b"),
        ("Blåbær & Øl", "blabaer-ol"),
        ("Łódź", "lodz"),
        ("Straße 7", "strasse-7"),
        ("ﬁne", "fine"),
        ("it's", "it-s"),
        ("日本", ""),
        ("x" * 59 + " yz", "x" * 59),
        ("x" * 80, "x" * 60),
    ],
)
def test_a_slug_of_a_name(name: str, slug: str) -> None:
    assert make_slug(name) == slug


def test_a_slug_that_is_given_counts() -> None:
    assert choose_slug("shop-2", "日本") == "shop-2"
    assert choose_slug(None, "Shop 2") == "shop-2"
    for slug, fault in ((None, "is required, because none can be made"), ("", "must be 1 to 60 of a-z")):
        with pytest.raises(InvalidInput) as refused:
            choose_slug(slug, "…")
        assert refused.value.errors[0].message.startswith(fault)
