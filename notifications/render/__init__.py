"""Formats messages for people: as words and lines (`view`), plain text and HTML. Pure functions of the message."""
