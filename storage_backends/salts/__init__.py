"""Random salts of visitors' hashes, one a day, shared by all edges and deleted after 48 h."""
