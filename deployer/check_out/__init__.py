"""One revision of a Git repository, brought into a folder with the system's git."""
