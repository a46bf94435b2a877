"""Recipes that ship, as package data."""
