"""Every planted bug, with what is wrong with it, and the healthy code that they were made from.

Four collections by people who had not seen the examiner, in several styles.
"""

from __future__ import annotations

from .first import HEALTHY, PLANTED
from .fourth import FOURTH, FOURTH_HEALTHY
from .records import KINDS, PROPERTIES, Healthy, Planted
from .second import FRESH, FRESH_HEALTHY
from .third import THIRD, THIRD_HEALTHY

__all__ = [
    "FOURTH",
    "FOURTH_HEALTHY",
    "FRESH",
    "FRESH_HEALTHY",
    "HEALTHY",
    "KINDS",
    "PLANTED",
    "PROPERTIES",
    "THIRD",
    "THIRD_HEALTHY",
    "Healthy",
    "Planted",
]
