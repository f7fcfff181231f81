"""Decode bodies into typed structs, or list all their invalid fields."""
