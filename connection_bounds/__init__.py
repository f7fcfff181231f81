"""What a connection may hold: bytes read at a time, and answers that its peer does not take."""
