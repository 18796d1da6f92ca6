"""Weights as products read them, kept on disk, so that a second start converts nothing."""
