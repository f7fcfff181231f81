"""Numbered migrations of the control plane's database: immutable once released, forward only."""
