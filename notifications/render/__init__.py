"""What a message says, for people: as words and lines (`view`), plain text, and HTML. Pure functions of the message."""
