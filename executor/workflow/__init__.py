"""Workflow files of every kind, read into a Prompt. Imports no torch."""
