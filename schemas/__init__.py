"""JSON Schemas of the workflow document and of each step type, as package data."""
