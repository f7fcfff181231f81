"""The overview of an account: items that need attention in all projects that a person may read, and a timeline."""
