"""Causes faults of engines and parts under load, one after the other. Measures lost and repeated events, and
how long recovery takes."""
