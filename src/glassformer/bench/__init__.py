"""Measurements side by side: what a choice costs, and what it loses."""
