"""Queries of the column store. Each module asks one question, and its SQL is in the `.sql` file of
the same name."""
