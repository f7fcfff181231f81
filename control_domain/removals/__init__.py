"""Removals of environments and projects with all rows that belong to them."""
