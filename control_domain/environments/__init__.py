"""How environments run and who may deploy to them: replicas, state, lock, window, approvals."""
