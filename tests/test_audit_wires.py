"""Words for links: the bandwidth one way that they mean for an instance of eight H100s, and whether it is certain."""

from __future__ import annotations

import pytest

from costmodel.audit.subject import Unknown, subject_of
from costmodel.audit.wires import wire_in

EIGHT = subject_of({"hardware": "8x H100", "tp": 8})


@pytest.mark.parametrize(
    ("words", "gigabytes", "sure"),
    [
        # so many ports, in any order: 8 x 400 Gb/s are 400 GB/s
        ("8x ConnectX-7 400Gb/s NDR InfiniBand per node", 400, True),
        ("8*400Gb IB", 400, True),
        ("100 Gbps × 4", 50, True),
        ("100 Gbps x 4", 50, True),
        ("4×200Gbps", 100, True),
        ("200Gbps RDMA NIC x2", 50, True),
        ("8 ConnectX-7 NICs (400 Gbps each)", 400, True),
        ("InfiniBand NDR (8 ports)", 400, True),
        ("CX-7 400G x 8", 400, True),
        ("eight 400G NICs", 400, True),
        ("8 x 200 Gbps RoCE", 200, True),
        ("RoCE v2, 2x200Gb", 50, True),
        ("dual-port 100G", 25, True),
        ("4 NICs at 200 Gbps", 100, True),
        ("one 200G HDR InfiniBand HCA per node", 25, True),
        ("1x HDR InfiniBand 200 Gbps", 25, True),
        ("8x NDR", 400, True),
        ("400 GB/s (8x 50 GB/s)", 400, True),
        # a rate of all ports, or of each GPU
        ("3.2 Tbps InfiniBand", 400, True),
        ("AWS EFA 3200 Gbps", 400, True),
        ("InfiniBand 8x400G, 3.2 Tbps total", 400, True),
        ("200 Gbps per node", 25, True),
        ("400 Gbps per GPU, 8 GPUs per node", 400, True),
        ("400 Gbps per GPU", 400, True),
        # a rate and no word for a port
        ("200 Gb/s", 25, True),
        ("50 GB/s per direction", 50, True),
        ("local NVMe SSD 7 GB/s", 7, True),
        # one port, of which there may be several
        ("EDR 100G", 12.5, False),
        ("HDR200", 25, False),
        ("RDMA, InfiniBand NDR 400 Gb/s", 50, False),
        ("25GB/s RoCE", 25, False),
        ("TCP over 25GbE", 3.125, False),
        ("ConnectX-7", 50, False),
        # links between GPUs: one way, of each of the eight
        ("NVLink", 3600, True),
        ("NVSwitch", 3600, True),
        ("NVLink 4 (900 GB/s)", 3600, True),
        ("NVLink, 900 GB/s", 3600, True),
        ("NVLink, 600 GB/s bidirectional", 2400, True),
        ("Infinity Fabric, 128 GB/s bidirectional", 512, True),
        ("PCIe 4.0 x16", 31.5, True),
        ("PCIe 5.0 x8", 31.5, True),
        ("PCIe Gen5", 63, True),
    ],
)
def test_the_wire_of_words(words: str, gigabytes: float, sure: bool) -> None:
    wire = wire_in(words, EIGHT)
    assert wire is not None
    assert (round(wire.bytes_per_s / 1e9, 3), wire.sure) == (gigabytes, sure)


@pytest.mark.parametrize(
    "words", ["InfiniBand", "ICI", "Infinity Fabric", "shared memory / host bounce", "RDMA"]
)
def test_words_without_a_bandwidth(words: str) -> None:
    assert wire_in(words, EIGHT) is None


def test_a_bandwidth_of_both_ways_is_halved_and_said() -> None:
    wire = wire_in("RoCE, 1x 128 GB/s bidirectional", EIGHT)
    assert wire is not None and wire.bytes_per_s == 64e9
    assert "128 GB/s of both directions, 64 GB/s one way" in wire.said


def test_one_gpu_has_one_port() -> None:
    wire = wire_in("InfiniBand NDR 400 Gb/s", subject_of({"hardware": "2x H200, TP1 each"}))
    assert wire is not None and (wire.bytes_per_s, wire.sure) == (50e9, True)


def test_a_gpu_without_the_link_that_is_named() -> None:
    with pytest.raises(Unknown, match="mi300x states no nvlink_bandwidth"):
        wire_in("NVLink", subject_of({"hardware": "8x MI300X"}))
