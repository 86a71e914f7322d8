"""What is learned: data and metrics, as data."""
