"""Isolated steps: their bodies run in processes of their own, which are ended when their time is over."""
