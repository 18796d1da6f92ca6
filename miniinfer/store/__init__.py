"""Runs that survive: what a run needs to come back, kept in one SQLite file in the user's data folder."""
