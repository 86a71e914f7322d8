"""The examiner: properties that a Transformer, or a part of one, must have, each tested by running it."""
