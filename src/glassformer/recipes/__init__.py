"""Recipes: task, model and training as YAML."""
