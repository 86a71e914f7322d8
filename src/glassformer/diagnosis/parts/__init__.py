"""The examiner of parts: attention, masks, positions, layers, schedules, caches and beam searches that users wrote."""
