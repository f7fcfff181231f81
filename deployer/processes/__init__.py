"""Starts confined operating-system processes, watches them and ends them for certain. Linux only."""
