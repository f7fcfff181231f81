"""The control plane: accounts, keys, receipts; deploys and webhooks as they come."""
