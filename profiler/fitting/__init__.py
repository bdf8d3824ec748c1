"""Fit the constants of device presets to tables of published latencies. Needs yaml.

``python -m profiler.fitting --table DIR`` prints how far off predictions of unseen networks are, a
line for each preset; with ``--write`` the constants go into the presets' files.
"""
