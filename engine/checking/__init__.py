"""Checking a document in two stages, and compiling what passed into a workflow."""
