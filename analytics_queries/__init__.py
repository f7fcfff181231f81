"""Questions to the column store: a question a module, its SQL beside it under the same name."""
