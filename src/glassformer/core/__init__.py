"""The vocabulary of the project: settings, places, mask, cache, call, tape. No nn.Module."""
