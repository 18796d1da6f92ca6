"""The backend "graph": decode steps whose stages write to the same memory each time, on CUDA as captured graphs.

Reading order: backend, stages, step, memory, fixed_cache, capture.
"""
