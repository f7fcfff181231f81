"""Tells open pages what has changed, as server-sent events: one sweep of an account serves all of its pages."""
