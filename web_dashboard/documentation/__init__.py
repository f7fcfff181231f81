"""The documentation as pages: Markdown files become HTML when somebody opens them, without a build."""
