"""How many random examples a property is tested with. Only test modules may import this: `--full` has to be known."""

from hypothesis import settings

EXAMPLES: int = settings().max_examples
"""30 in `make test`, 100 in `make test-full`. Others are given as multiples of it."""
