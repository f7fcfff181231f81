"""The command line: `pharos`, a file per command."""
