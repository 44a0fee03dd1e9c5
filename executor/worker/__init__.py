"""Worker processes: each runs prompts on one device, and is told what to do over its standard streams."""
