"""Turns alert events into incidents, and adds incidents to the groups of their recipients."""
