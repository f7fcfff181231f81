"""What builds and processes print: bytes to lines, with the values of variables hidden."""
