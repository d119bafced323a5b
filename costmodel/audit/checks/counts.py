"""Characters counted as tokens."""

from __future__ import annotations

from collections.abc import Iterator

from ..case import Case
from ..finding import HOLDS, INCONSISTENT, SUSPICIOUS, Finding
from ..runs import named

CHECK = "characters_as_tokens"
#: Characters of a token: about 4 in English, 3 in code, 1 to 2 in Chinese (tokenizers of 32k to 200k entries).
_FEWEST, _MOST = 1.0, 8.0


def check_characters(case: Case) -> Iterator[Finding]:
    """Characters of a prompt beside its tokens: as many are one count under two names."""
    for run in case.runs:
        characters, tokens = run.number("prompt_characters"), run.number("input_tokens")
        of = named(
            [f for f in run.figures if "prompt_characters" in {*f.conditions, *case.record.conditions}]
        )
        if not characters or not tokens or not of:
            continue
        each = characters / tokens
        told = f"{characters:,.0f} / {tokens:,.0f} = {each:.3g} characters a token"
        if characters == tokens:
            said = (
                f"{tokens:,.0f} are stated as characters and as tokens of the prompt: one of them is not that"
            )
            yield Finding(CHECK, INCONSISTENT, of, said, told)
        elif _FEWEST <= each <= _MOST:
            yield Finding(CHECK, HOLDS, of, f"a token is {each:.3g} characters of the prompt", told)
        else:
            yield Finding(
                CHECK, SUSPICIOUS, of, f"a token would be {each:.3g} characters of the prompt", told
            )
