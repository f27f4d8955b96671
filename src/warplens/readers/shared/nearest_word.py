"""Where a word is nearest to places in a text that are asked for in their order."""

from __future__ import annotations


class NearestWord:
    """No part of the text is searched twice, however many places are asked for and however far away the word is."""

    def __init__(self, text: bytes, word: bytes) -> None:
        self._text, self._word = text, word
        self._before = self._after = -1
        self._searched = 0

    def before(self, place: int) -> int:
        """Where the last one that ends before `place` starts; -1: there is none."""
        at = self._text.rfind(self._word, max(0, self._searched - len(self._word) + 1), place)
        self._before, self._searched = max(at, self._before), place
        return self._before

    def after(self, place: int) -> int:
        """Where the first one from `place` on starts; the end of the text: there is none."""
        if self._after < place:
            at = self._text.find(self._word, place)
            self._after = at if at >= 0 else len(self._text)
        return self._after
