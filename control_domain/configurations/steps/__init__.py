"""Steps of a configuration run: each applies one action of a plan within the caller's transaction."""
