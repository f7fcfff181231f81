"""The number of random examples that a property is tested with.

Import this only in test modules: the value is read at import, after `--full` has chosen the profile.
"""

from hypothesis import settings

EXAMPLES: int = settings().max_examples
"""30 in `make test`, 100 in `make test-full`. Tests with more or fewer examples use a multiple or a fraction of it."""
