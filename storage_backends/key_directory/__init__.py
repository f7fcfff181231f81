"""The key directory: what each key gives access to, published by the control plane and read by the edges."""
