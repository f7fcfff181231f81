"""Which process listens on a port of this machine, and whether that is the instance it should be."""
