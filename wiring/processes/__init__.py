"""Each part as a process of its own on the engines of a larger installation: the only place that opens them."""
