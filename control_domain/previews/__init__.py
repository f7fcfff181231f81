"""Previews: environments for one branch or pull request, created to be deployed at once and removed when closed."""
