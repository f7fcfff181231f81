"""The key directory says what each key gives access to. The control plane publishes keys to it, and the
edges read them."""
