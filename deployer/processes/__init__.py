"""Starts confined operating-system processes, watches them and reliably ends them. Linux only."""
