"""Words for GPUs in one form: "two DGX H100" and "H100 x16" both say a number, x, and a name."""

from __future__ import annotations

import re

_NUMBERS = {
    "one": 1, "single": 1, "a": 1, "an": 1, "two": 2, "three": 3, "four": 4, "six": 6, "eight": 8, "sixteen": 16,
    "dual": 2, "quad": 4,
}  # fmt: skip
#: Cloud instances by what their makers say is in one: GPUs and their name.
_INSTANCES: tuple[tuple[str, str], ...] = (
    (r"p4d\.24xlarge", "8 x A100 40GB"),
    (r"p4de\.24xlarge", "8 x A100 80GB"),
    (r"p5\.48xlarge", "8 x H100"),
    (r"p5(?:e|en)\.48xlarge", "8 x H200"),
    (r"p6-b200\.48xlarge", "8 x B200"),
    (r"a3-(?:high|mega)gpu-8g", "8 x H100"),
    (r"a3-ultragpu-8g", "8 x H200"),
    (r"a4-highgpu-8g", "8 x B200"),
    (r"a2-ultragpu-8g", "8 x A100 80GB"),
    (r"a2-highgpu-8g", "8 x A100 40GB"),
    (r"Standard_ND96i?sr_H100_v5|ND96i?sr[\s_-]?H100[\s_-]?v5", "8 x H100"),
    (r"Standard_ND96i?sr_H200_v5|ND96i?sr[\s_-]?H200[\s_-]?v5", "8 x H200"),
    (r"Standard_ND96amsr_A100_v4|ND96amsr[\s_-]?A100[\s_-]?v4", "8 x A100 80GB"),
    (r"Standard_NC96ads_A100_v4|NC96ads[\s_-]?A100[\s_-]?v4", "4 x A100 PCIe 80GB"),
    (r"Standard_NC80adis_H100_v5|NC80adis[\s_-]?H100[\s_-]?v5", "2 x H100 NVL"),
    (r"g6e\.(?:x|2x|4x|8x|16x)large", "1 x L40S"),
    (r"g6e\.48xlarge", "8 x L40S"),
    (r"g6\.(?:x|2x|4x|8x|16x)large", "1 x L4"),
)
#: Systems of eight GPUs by name; a Spark is none of them.
_EIGHT = re.compile(
    r"(?i)\b(?:NVIDIA\s+)?[DH]GX[\s-]+(?:station\s+)?(?=(?:A100|A800|H100|H200|H800|H20|B200|B300)\b)"
)


def without_instances(text: str) -> str:
    """Return a text with names of cloud instances as the GPUs in one."""
    for pattern, gpus in _INSTANCES:
        text = re.sub(rf"(?i)(?<![\w.])(?:{pattern})(?![\w.])", gpus, text)
    return text


def plain_words(text: str) -> str:
    """Return a text about GPUs with numbers as digits before names, and names in the singular."""
    text = re.sub(r"(?i)(pcie[^,;()]*?)\s*x\s?16\b", r"\1", text.replace("*", " x "))
    text = re.sub(r"(?i)(?<![\w.])(\d+\s*[x×]\s*)?(?<!RTX )(?<!RTX)([345]090)\b", r"\1RTX \2", text)
    words = "|".join(_NUMBERS)
    text = re.sub(
        rf"(?i)\b({words})\s+(?=(?:NVIDIA|AMD|[DH]GX|[A-Z]{{1,3}}\d|RTX|\d+\s*x))",
        lambda found: f"{_NUMBERS[found[1].lower()]} x ",
        text,
    )
    text = re.sub(r"\b([A-Z]{1,3}\d{1,4}[A-Z]{0,2})s\b", r"\1", text)
    text = re.sub(r"(?i)(\d+)\s*x?\s+(?=(?:NVIDIA\s+)?[DH]GX)", r"\1 x ", text)
    text = _EIGHT.sub("8 x ", text)
    text = re.sub(r"(?i)(?<=[a-z0-9])[-_\s]x\s?(\d{1,3})\b(?!\s*[x×])", r" x \1", text)
    return re.sub(r"(?i)(?<=[a-z]\d\d)(x|×)(\d{1,3})\b|(?<=[a-z]\d\d\d)(x|×)(\d{1,3})\b", r" x \2\4", text)


def counted_in(text: str) -> int | None:
    """Return the number of GPUs that a text counts apart from their name: "H100 (8 GPUs)", "A100 80GB (x2)"."""
    found = re.findall(r"(?i)(?<![\w.])(\d{1,4})[\s-]*[x×]?\s*(?:GPUs?|cards|accelerators|chips|way)\b", text)
    found += re.findall(r"(?i)\(\s*[x×]\s?(\d{1,4})\s*\)", text)
    return int(found[0]) if len(found) == 1 else None


def nodes_in(text: str) -> int | None:
    """Return the number of nodes that a text names: "2 nodes of 8xH100", "8xH800 per node, 12 nodes"."""
    found = re.findall(
        r"(?i)(?<![\w.])(\d{1,4})\s*(?:x\s*)?(?:compute\s+|GPU\s+)?(?:nodes?|servers?|hosts?)\b", text
    )
    return int(found[0]) if len(found) == 1 else None
