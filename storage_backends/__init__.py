"""Engines behind roles: a folder a role, with its interface and one adapter per engine."""
