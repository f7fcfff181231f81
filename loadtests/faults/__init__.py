"""Faults of engines and parts, one after the other under load: lost and repeated events, and recovery times."""
