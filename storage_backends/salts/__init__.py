"""Random salts for the hashes of visitors: one per day, shared by all edges, deleted after 48 h."""
