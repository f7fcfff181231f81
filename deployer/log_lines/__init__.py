"""Turns the output of builds and processes into log lines, in which the values of variables are
hidden."""
