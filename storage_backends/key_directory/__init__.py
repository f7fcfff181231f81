"""What each key opens, published by the control plane, looked up by the edges."""
