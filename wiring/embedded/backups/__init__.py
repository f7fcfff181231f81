"""Backups of the embedded platform: a consistent copy while it runs, its restore, and the test of a restore."""
