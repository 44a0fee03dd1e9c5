"""Model files and folders, and what they become: denoiser, text encoder, VAE."""
