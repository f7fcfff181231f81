"""Output of builds and processes: from bytes to log lines, with the values of variables hidden."""
