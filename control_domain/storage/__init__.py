"""The amount of data that the installation stores, its retention, and its backups."""
