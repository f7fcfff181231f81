"""Formats messages for people: as a view with words and lines, as plain text, and as HTML. The functions do no
I/O."""
