"""Web analytics at the edge: turns page views and events of browsers into records without personal data."""
