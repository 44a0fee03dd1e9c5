"""Samplers, sigma schedules, noise and guidance: pure tensor functions."""
