"""Model families: how to recognise one, what its tensors are called, and how its denoiser is called."""
