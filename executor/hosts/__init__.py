"""Where node classes come from."""
