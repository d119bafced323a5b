"""Claimed peaks: links one way, both ways and of other GPUs; dense and sparse products; memory."""

from __future__ import annotations

import pytest
from audit_records import found, row

from costmodel.audit.checks.peaks import check_bandwidth_stated, check_links, check_memory_stated, check_peaks


@pytest.mark.parametrize(
    ("gpu", "id_", "rate", "finding", "grade"),
    [
        # NVLink one way: 300 GB/s of an A100, 450 of an H100, 200 of an H800; PCIe 4 x16: 31.5, PCIe 5 x16: 63.
        ("A100", "nvlink", 300, "claimed_link", "holds"),
        ("A100", "nvlink", 450, "link_of_another_gpu", "impossible"),
        ("A100", "link", 450, "link_of_another_gpu", "impossible"),
        ("A100", "nvlink", 600, "both_directions", "inconsistent"),
        ("H100", "nvlink", 450, "claimed_link", "holds"),
        ("H100", "nvlink", 900, "both_directions", "inconsistent"),
        ("H800", "nvlink", 450, "link_of_another_gpu", "impossible"),
        ("A100", "pcie", 31.5, "claimed_link", "holds"),
        ("A100", "pcie", 32, "claimed_link", "holds"),
        ("A100", "pcie", 64, "both_directions", "inconsistent"),
        ("A100", "pcie", 252, "bits_as_bytes", "inconsistent"),
        ("A100", "nvlink", 270, "claimed_link", "not_computable"),
        ("A10", "nvlink", 300, "claimed_link", "not_computable"),
    ],
)
def test_a_claimed_link(gpu: str, id_: str, rate: float, finding: str, grade: str) -> None:
    text = f'hardware = "{gpu}"\n' + row("link_bandwidth_claimed", rate, "GB/s", id=id_)
    (only,) = found(check_links, text)
    assert (only.id, only.grade) == (finding, grade)


def test_whose_link_it_is() -> None:
    (finding,) = found(
        check_links, 'hardware = "A100"\n' + row("nvlink_per_direction", 450, "GB/s", id="nvlink-450")
    )
    assert "no link of a100-sxm-80gb carries 450 GB/s one way" in finding.said
    assert "h100-sxm" in finding.said and "a800" not in finding.said
    assert finding.of == ("nvlink-450",)


@pytest.mark.parametrize(
    ("link", "rate", "id_"),
    [
        ("InfiniBand HDR", "25 GB/s", "claimed_link"),  # 200 Gb/s / 8
        ("HDR InfiniBand", "50 GB/s", "both_directions"),
        ("ib-ndr", "50 GB/s", "claimed_link"),  # 400 Gb/s / 8
        ("NVLink 4", "900 GB/s", "both_directions"),
        ("PCIe Gen5", "63 GB/s", "claimed_link"),
    ],
)
def test_a_named_link_needs_no_gpu(link: str, rate: str, id_: str) -> None:
    text = f'link = "{link}"\nlink_bandwidth = "{rate}"\n' + row("kv_transfer_time", 1, "ms", id="copy")
    (finding,) = found(check_links, text)
    assert finding.id == id_ and finding.of == ("copy",)


def test_a_link_cut_down_for_export_is_not_that_of_its_sibling() -> None:
    (finding,) = found(
        check_links, 'hardware = "H800"\n' + row("nvlink_per_direction", 450, "GB/s", id="nvlink")
    )
    assert finding.grade == "impossible" and "NVLink of h100-sxm" in finding.said  # an H800 has 200


def test_a_link_of_one_figure_is_not_one_of_others() -> None:
    text = 'hardware = "A100"\n' + row("kv_transfer_time", 1, "ms", id="copy", link_bandwidth="450 GB/s")
    (finding,) = found(check_links, text + row("ttft", 1, "s", id="ttft"))
    assert finding.of == ("copy",)


def test_a_link_without_gpu_or_name_is_not_judged() -> None:
    for text in (row("link_peak", 450, "GB/s"),
                 'hardware = "A100"\nlink = "RoCE"\nlink_bandwidth = "50 GB/s"\n' + row("ttft", 1, "s")):  # fmt: skip
        (finding,) = found(check_links, text)
        assert finding.grade == "not_computable"
    assert not found(check_links, 'hardware = "A100"\n' + row("ttft", 1, "s"))


@pytest.mark.parametrize(
    ("gpu", "dtype", "peak", "id_", "grade"),
    [
        # dense: H100 SXM bf16 989, fp8 1979; A100 bf16 312, int8 624
        ("H100", "bf16", 989, "claimed_peak", "holds"),
        ("H100", "bf16", 1979, "sparse_peak", "inconsistent"),
        ("H100", "fp8", 1979, "claimed_peak", "holds"),
        ("H100", "", 1979, "sparse_peak", "suspicious"),
        ("H100", "", 3958, "sparse_peak", "inconsistent"),
        ("H100", "fp8", 3958, "sparse_peak", "inconsistent"),
        ("A100", "fp16", 624, "sparse_peak", "inconsistent"),
        ("A100", "fp16", 400, "claimed_peak", "inconsistent"),
        ("A100", "fp16", 250, "claimed_peak", "not_computable"),
        ("M2 Pro", "fp16", 6.8, "claimed_peak", "not_computable"),
    ],
)
def test_a_claimed_peak(gpu: str, dtype: str, peak: float, id_: str, grade: str) -> None:
    text = f'hardware = "{gpu}"\ndtype = "{dtype}"\n'
    (figure,) = found(check_peaks, text + row("peak_flops_claimed", peak, "TFLOP/s"))
    (condition,) = found(check_peaks, f'{text}peak_flops = "{peak} TFLOP/s"\n' + row("ttft", 1, "s", id="t"))
    assert (figure.id, figure.grade) == (condition.id, condition.grade) == (id_, grade)
    assert condition.of == ("t",)


@pytest.mark.parametrize(
    ("memory", "grade"),
    [("80 GB", "holds"), ("80 GiB", "holds"), ("40 GB", "inconsistent"), ("640 GB", "inconsistent")],
)
def test_a_stated_memory(memory: str, grade: str) -> None:
    text = f'hardware = "A100 80GB"\nmemory = "{memory}"\n' + row("ttft", 1, "s") + row("tpot", 1, "s")
    (finding,) = found(check_memory_stated, text)
    assert finding.grade == grade and len(finding.of) == 2


@pytest.mark.parametrize(
    ("stated", "grade", "whose"),
    [
        ("3.35 TB/s", "holds", ""),
        ("4.8 TB/s", "inconsistent", "h200-sxm"),
        ("2 TB/s", "suspicious", "h100-pcie"),
    ],
)
def test_a_memory_bandwidth_of_another_gpu(stated: str, grade: str, whose: str) -> None:
    text = f'hardware = "1x H100 SXM"\nmemory_bandwidth = "{stated}"\n' + row("tpot", 10, "ms")
    (finding,) = found(check_bandwidth_stated, text)
    assert finding.grade == grade and whose in finding.said
    assert not found(check_bandwidth_stated, text.replace("1x H100 SXM", "an M2 Ultra"))
