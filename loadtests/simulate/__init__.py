"""A queueing model of Pharos that uses measured costs, and a comparison of the model with a real
edge."""
