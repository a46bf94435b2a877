"""Schedules: when they fire, and who sees to it."""
