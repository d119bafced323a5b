"""The roofline at published peaks, on both sides of the ridge."""

from __future__ import annotations

import pytest

from costmodel.formulas import roofline


def test_times() -> None:
    assert roofline.compute_time(flop=21.0, peak_flop_per_s=6.0) == 3.5
    assert roofline.memory_time(bytes_moved=10.0, memory_bytes_per_s=4.0) == 2.5


def test_each_side_of_the_ridge() -> None:
    peaks = {"peak_flop_per_s": 6.0, "memory_bytes_per_s": 4.0}
    assert roofline.roofline_time(flop=21.0, bytes_moved=10.0, **peaks) == 3.5  # arithmetic 3.5, bytes 2.5
    assert roofline.roofline_time(flop=12.0, bytes_moved=10.0, **peaks) == 2.5  # arithmetic 2, bytes 2.5


@pytest.mark.parametrize(
    ("peak", "bandwidth", "ridge"),
    [
        (312e12, 2039e9, 153.0),  # A100 SXM 80 GB; DistServe's rounded 156 is 312 / 2
        (989e12, 3350e9, 295.2),  # H100 SXM: 989 / 3.35
    ],
)
def test_ridge_point(peak: float, bandwidth: float, ridge: float) -> None:
    assert roofline.ridge_point(peak_flop_per_s=peak, memory_bytes_per_s=bandwidth) == pytest.approx(
        ridge, abs=0.05
    )


def test_at_the_ridge_both_take_as_long() -> None:
    ridge = roofline.ridge_point(peak_flop_per_s=6.0, memory_bytes_per_s=4.0)
    flop, size = ridge * 10.0, 10.0
    assert roofline.operational_intensity(flop=flop, bytes_moved=size) == ridge == 1.5
    assert roofline.compute_time(flop, 6.0) == roofline.memory_time(size, 4.0) == 2.5
