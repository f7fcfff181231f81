"""Errors of backups, with messages for people."""


class BackupFailed(Exception):
    """A backup could not be made, read or restored; the message says why and what to do."""
