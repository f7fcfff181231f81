"""Which parts of an account have changed, for live pages: topics, and a sweep that compares them."""
