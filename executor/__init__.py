"""The headless executor: workflow files in, pictures out."""
