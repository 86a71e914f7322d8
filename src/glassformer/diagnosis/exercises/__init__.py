"""A ladder of exercises: parts to write, each examined when it is written."""
