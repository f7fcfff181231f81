"""The overview of an account: what needs attention in all projects that a person may read, and what happened when."""
