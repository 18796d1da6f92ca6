"""Decoding in C++: a compiled core beside the torch program. Same stages, same names, same fields.

Reading order: core.h and core.cpp (the arithmetic), threads.h, build.py (from source to library, in the background),
library.py (ctypes), products.py (weights where they lie), cost/stages.py (one call each), backend.py (who uses it).
"""
