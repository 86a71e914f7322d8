"""Every message is there in every language."""

from __future__ import annotations

import pytest

from glassformer.core.errors import ConfigError
from glassformer.core.wording import Catalogue, known_language


def test_catalogue_says_a_message_with_its_values() -> None:
    catalogue = Catalogue({"left": {"en": "{number} left", "zh": "还剩 {number} 个"}})
    assert catalogue.say("left", "en", number=3) == "3 left"
    assert catalogue.say("left", "zh", number=3) == "还剩 3 个"


def test_catalogue_refuses_a_message_that_lacks_a_language() -> None:
    with pytest.raises(ConfigError, match=r"'left' is there in .'en'."):
        Catalogue({"left": {"en": "left"}})


def test_unknown_language_names_the_known_ones() -> None:
    assert known_language("zh") == "zh"
    with pytest.raises(ConfigError, match=r"no language 'zhh'.*zh"):
        known_language("zhh")
