"""The dashboard: pages that talk to the management API over HTTP. Python knows only their built files."""
