"""Descriptions of incidents in messages, from the facts of their events: one module per family. Pure."""
