"""A queueing model of Pharos that computes with measured costs, and its comparison with a real edge."""
