"""`slipstream serve`: the queue and the workers behind ComfyUI's HTTP and websocket API. Imports no torch."""
