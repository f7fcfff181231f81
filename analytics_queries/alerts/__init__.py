"""Queries of the alert scan. Each covers all environments or sites at once and reads a short time range."""
