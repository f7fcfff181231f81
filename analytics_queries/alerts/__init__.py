"""Queries for the alert scan. Each query reads a short time range of all environments or sites at once."""
