"""Finds the best placement of a network's units on a chain of tiers. Pure numbers, no names.

Needs numpy and scipy.
"""
