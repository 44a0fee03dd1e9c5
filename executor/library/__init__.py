"""ComfyUI's core nodes, on diffusers."""
