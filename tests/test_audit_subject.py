"""What cannot be computed of a subject is said with its reason, whatever lacks it."""

from __future__ import annotations

import pytest

from costmodel.audit.subject import Unknown, subject_of


@pytest.mark.parametrize("stated", [{"model": "Llama-3.1-8B"}, {"parameters": 8e9}])
def test_a_gpu_that_states_no_peak(stated: dict[str, str | float]) -> None:
    subject = subject_of({**stated, "hardware": "Ascend 910B"})  # sources differ on its peak and bandwidth
    with pytest.raises(Unknown, match="ascend-910b has no peak_bf16"):
        subject.prefill(1024, 0, 1)
    with pytest.raises(Unknown, match="ascend-910b has no"):
        subject.decode(1, 0, 1)


def test_a_gpu_as_stated_that_states_no_memory() -> None:
    subject = subject_of({"hardware": "M2 Pro", "peak_flops": 6.8e12})
    with pytest.raises(Unknown, match="memory"):
        _ = subject.memory_bytes
