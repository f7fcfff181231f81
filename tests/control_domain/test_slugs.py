"""Slugs that are made from names."""

import pytest

from control_domain.refusals import Refused
from control_domain.slugs import make_slug, read_slug


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
    assert read_slug({"slug": "shop-2"}, "日本") == "shop-2"
    assert read_slug({"slug": None}, "Shop 2") == "shop-2"
    with pytest.raises(Refused, match="give one of 1 to 60 of a-z, 0-9 and single hyphens"):
        read_slug({"slug": ""}, "…")
