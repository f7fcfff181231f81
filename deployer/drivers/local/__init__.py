"""Runs applications as supervised processes of this machine."""
