"""Words for GPUs in one form: digits, x, names, and what is counted (NODES, GPUS, boxes that hold several)."""

from __future__ import annotations

import re
from collections.abc import Callable

NODES, GPUS, EACH, HALF = "NODES", "GPUS", "EACH", "HALF"
#: Before the name of the GPUs of a cloud instance: a text may name them better.
RENTED = "RENTED_"
_NUMBERS = {
    "one": 1, "single": 1, "a": 1, "an": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "ten": 10, "twelve": 12, "sixteen": 16, "dual": 2, "quad": 4,
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
#: Boxes by the word for them, and the GPUs in one; a DGX Spark or Station is none of them.
_BOXES: tuple[tuple[str, str], ...] = (
    (r"(?<![A-WYZa-wyz])DGX\b(?![\s-]*(?:spark|station|GB))", "BOX8dgx"),
    (r"(?<![A-WYZa-wyz])HGX\b", "BOX8hgx"),
    (r"(?<=GB[23]00)[\s-]*NVL-?(\d+)\b", r"BOX\1rack"),
)
_DEGREES = r"(?:TP|PP|DP|EP|CP|SP)\s*[=-]?\s*\d{1,3}(?![\w.])"
_NODE_WORD = r"(?:nodes?|servers?|hosts?|machines?|boxes)"
Rewriting = tuple[str, str | Callable[[re.Match[str]], str]]
#: How wordings become plain, in this order.
_PLAIN: tuple[Rewriting, ...] = (
    # Degrees of parallelism and quantities with a unit count no GPUs.
    (r"(?:TP|PP|DP|EP|CP|SP)\s*[=-]?\s*\d{1,3}(?:\s*[x×*/-]\s*(?:TP|PP|DP|EP|CP|SP)\s*[=-]?\s*\d{1,3})+", " "),
    (rf"(?<![\w]){_DEGREES}", " "),
    (r"(pcie[^,;()]*?)\s*[x×]\s?16\b|(pcie\s*(?:gen\s*)?\d(?:\.0)?)\s*[x×]\s?[48]\b", r"\1\2"),
    (r"(?<![\w.])\d+(?:\.\d+)?[\s-]*(?:[TGM]i?b(?:/s|ps|it/s|it)|[TGM]bE|[TGM]i?B/s|W|[PT]FLOPS?(?:/s)?)(?!\w)", " "),
    (r"(?<![\w.])\d+\.\d+\s*G(?:i?B)?(?!\w)", " "),
    (r"(?<![\d.])(\d{2,3})\s?G(?:i?B)?(?!\w)", r"\1GB"),
    # Slices of TPUs: chips of the e series, two cores a chip of the others.
    (r"\b(?:TPU[\s-]*)?v5litepod-(\d+)\b", r"TPU v5e x \1"),
    (r"\b(?:TPU[\s-]*)?(v\d+e)-(\d+)\b", r"TPU \1 x \2"),
    (r"\b(?:TPU[\s-]*)?(v[2-5]p?)-(\d+)\b", lambda found: f"TPU {found[1]} x {max(1, int(found[2]) // 2)}"),
    # Signs and spaces around numbers.
    (r"[*×]", "x"),
    (r"\bx\s*\(\s*", "x "),
    (r"(?<![A-Za-z\d.])(\d{1,4})\s*x\s*(?=[A-Za-z\d])", r"\1 x "),
    (r"(?<= x )(\d{1,4})\s*x\s*(?=[A-Za-z\d])", r"\1 x "),
    (r"(?<=[A-Za-z\d])[\s-]+x\s?(\d{1,4})\b", r" x \1"),
    (r"(?<=[A-Za-z]\d\d)x(\d{1,3})\b|(?<=[A-Za-z]\d\d\d)x(\d{1,3})\b|(?<=\d[A-Z])x(\d{1,3})\b",
     lambda found: f" x {found[1] or found[2] or found[3]}"),
    (r"(?<![\w.])x(\d{1,4})\b", r"x \1"),
    (r"(?<!RTX )(?<!RTX)(?<![\w.-])([345]090)\b", r"RTX \1"),
    # Words for what is counted.
    (r"(?<!\w)1\s*/\s*2(?:\s+of)?(?:\s+an?)?(?=\s)|\bhalf(?:\s+of)?(?:\s+an?)?(?=\s)", f" {HALF} "),
    (rf"(?:\bper|\beach|\bevery|/)\s*(?:compute\s+|GPU\s+)?{_NODE_WORD}\b|\beach\b|\bapiece\b", f" {EACH} "),
    (r"\bpair\b", "x 2"),
    (r"[\s-](?:way)\b", f" {GPUS} "),
    (rf"[\s-](?:compute\s+|GPU\s+)?{_NODE_WORD}\b", f" {NODES} "),
    (r"(?:(?<=\d)-|\b)(?:GPUs?|cards?|accelerators?|chips?|devices?)\b", f" {GPUS} "),
)  # fmt: skip


#: What a number word is a number before.
_COUNTABLE = ("single", "dual", "NVIDIA", "AMD", "Intel", "[DH]GX", r"[A-Z]{1,6}\s?\d", "RTX", "TPU", r"\d+", "nodes?",
              "servers?", "GPUs?", "NICs?", "ports?", "rails?", "HCAs?", "links?", "cards?", "chips?")  # fmt: skip


def spelled(text: str) -> str:
    """Return a text with the number words before names and nouns as digits: "two H100" is "2 H100".

    >>> spelled("a single node of eight H100"), spelled("a rack")
    ('1 1 node of 8 H100', 'a rack')
    """
    pattern = rf"(?i)\b({'|'.join(_NUMBERS)})[\s-]+(?=(?:{'|'.join(_COUNTABLE)}))"
    return re.sub(pattern, lambda found: f"{_NUMBERS[found[1].lower()]} ", text)


def plain_words(text: str) -> str:
    """Return a text about GPUs as words apart: 2 x 8 x H100, BOX8dgx H100 x 2, 8 x H100 EACH , 2 NODES."""
    for pattern, gpus in _INSTANCES:
        number, name = gpus.split(" x ")
        text = re.sub(
            rf"(?i)(?<![\w.])(?:{pattern})(?![\w.])",
            f" BOX{number}cloud {RENTED}{name.replace(' ', '_')} ",
            text,
        )
    text = re.sub(r"(?i)([A-Z]\d{2,3})\s+of\s+(?:an?|one|the)\s+[DH]GX\b", r"\1", text)  # some of a box
    for pattern, box in _BOXES:
        text = re.sub(f"(?i){pattern}[\\s-]*", f" {box} ", text)
    text = spelled(text)
    for pattern, plain in _PLAIN:
        text = re.sub(f"(?i){pattern}", plain, text)
    text = re.sub(r"\b([A-Z]{1,3}\d{1,4}[A-Z]{0,2})s\b", r"\1", text)
    return re.sub(r"([(),;:+/])", r" \1 ", text)
