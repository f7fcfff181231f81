"""Queries over all environments and sites of an account at once, for the overview and for live pages."""
