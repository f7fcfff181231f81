"""The spans of a trace form a tree, with any parent IDs."""

import pytest

from analytics_queries.telemetry.span_tree import span_tree


@pytest.mark.parametrize(
    ("spans", "tree"),
    [
        ("", ""),
        ("a- b:a c:b d:a", "a0 b1 c2 d1"),
        # A span may arrive before its parent.
        ("c:b b:a a-", "a0 b1 c2"),
        # Unknown parents, and a span that is its own parent.
        ("d:gone e:d c:c", "d0 e1 c0"),
        # Cycles, and a span below a cycle.
        ("a:b b:a", "a0 b1"),
        ("f:b a:b b:a r-", "r0 f0 a0 b1"),
    ],
)
def test_each_span_follows_its_parent(spans: str, tree: str) -> None:
    pairs = [(name, parent.lstrip(":-")) for name, parent in ((text[0], text[1:]) for text in spans.split())]
    placed = [f"{pairs[span.place][0]}{span.depth}" for span in span_tree(pairs)]
    assert placed == tree.split()


def test_a_deep_trace_needs_no_recursion() -> None:
    spans = [(str(n), str(n - 1)) for n in range(5000)]
    assert [span.depth for span in span_tree(spans)] == list(range(5000))
