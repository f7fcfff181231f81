"""The database of the control plane: SQLite or Postgres, its engine, statements and migrations."""
