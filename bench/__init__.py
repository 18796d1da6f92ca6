"""Measurements of what the project promises. Each is a command of its own: `python -m bench.NAME`, see README.md."""

from miniinfer.engine import threads

threads.configure()  # as the app does, and before any of these modules imports torch: OpenMP reads it only once
