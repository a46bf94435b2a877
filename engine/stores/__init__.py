"""Stores: one port, one adapter per database."""
