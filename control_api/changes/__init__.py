"""Notifies open pages of changes with server-sent events. One sweep of an account serves all of its pages."""
