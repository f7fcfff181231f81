"""Numbered migrations of the control plane's database. Immutable once they are out; forward only."""
