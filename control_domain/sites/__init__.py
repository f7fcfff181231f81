"""Sites whose visits are measured, their goals, and reports on them."""
