"""A queueing model of Pharos with measured costs, and its comparison with a real edge."""
