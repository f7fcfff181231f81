"""Web analytics at the edge: what browsers send becomes events that identify nobody."""
