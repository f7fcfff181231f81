"""Faults of engines and parts, one after the other under load: what is lost, doubled, and how long it takes."""
