"""Tells Git hosts what became of their commits."""
