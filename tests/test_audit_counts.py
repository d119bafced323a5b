"""Characters counted as tokens."""

from __future__ import annotations

import pytest
from audit_records import found, row

from costmodel.audit.checks.counts import check_characters


@pytest.mark.parametrize(
    ("characters", "tokens", "grade"),
    [
        (48442, 11715, "holds"),  # 4.14 characters a token: vLLM's issue 25677
        (48442, 48442, "inconsistent"),
        (48442, 1000, "suspicious"),
        (1000, 48442, "suspicious"),
    ],
)
def test_characters_of_a_token(characters: int, tokens: int, grade: str) -> None:
    stated = f"prompt_characters = {characters}\ninput_tokens = {tokens}\n"
    (finding,) = found(check_characters, stated + row("ttft", 1, "s", id="t"))
    assert (finding.id, finding.grade, finding.of) == ("characters_as_tokens", grade, ("t",))
    assert not found(check_characters, f"input_tokens = {tokens}\n" + row("ttft", 1, "s"))
