"""What users read, in every language that it is offered in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from glassformer.core.errors import ConfigError, did_you_mean

LANGUAGES = ("en", "zh")


class Catalogue(Mapping[str, Mapping[str, str]]):
    """The messages of one room, by key and language.

    Args:
        messages: Of each key, the text in each of `LANGUAGES`; `{name}` stands for what is filled in.

    Raises:
        ConfigError: A key lacks a language.
    """

    def __init__(self, messages: Mapping[str, Mapping[str, str]]) -> None:
        for key, texts in messages.items():
            if set(texts) != set(LANGUAGES):
                raise ConfigError(f"the message {key!r} is there in {sorted(texts)}; it must be in {list(LANGUAGES)}")
        self._messages = messages

    def __getitem__(self, key: str) -> Mapping[str, str]:
        return self._messages[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def say(self, key: str, language: str, **values: object) -> str:
        """Return a message with its values filled in.

        Args:
            key: Name of the message.
            language: One of `LANGUAGES`.
            values: What stands at each `{name}`.
        """
        return self._messages[key][language].format(**values)


def known_language(language: str) -> str:
    """Return `language` if glassformer speaks it.

    Raises:
        ConfigError: It does not.
    """
    if language not in LANGUAGES:
        raise ConfigError(f"there is no language {language!r}{did_you_mean(language, LANGUAGES)}")
    return language
