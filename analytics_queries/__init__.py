"""Queries of the column store: one module per question, with its SQL in the file of the same name."""
