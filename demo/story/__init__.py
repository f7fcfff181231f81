"""What happened in the demo shop before it was started, and what happens while it runs."""
