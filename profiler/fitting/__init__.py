"""Fit the constants of device presets to tables of published latencies. Needs scipy and yaml.

``python -m profiler.fitting --table DIR --preset pi4`` prints the fit and its errors; with
``--write`` they go into the preset's file.
"""
