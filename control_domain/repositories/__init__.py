"""The Git repositories that projects are deployed from."""
