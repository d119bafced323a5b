"""Prices of GPUs: dated, sourced, comparable, replaceable."""

from __future__ import annotations

from datetime import date

import pytest

from costmodel.errors import InputError
from costmodel.inputs.hardware import gpu_names
from costmodel.inputs.prices import load_prices, parse_prices, price_of, prices_for, providers


def test_every_price_has_a_packaged_gpu_a_day_and_a_source() -> None:
    for price in load_prices():
        assert price.gpu in gpu_names()
        assert 0 < price.usd_per_hour < 100
        assert date(2023, 1, 1) < date.fromisoformat(price.date) <= date(2026, 11, 30)
        assert price.source and price.provider


def test_aws_prices_are_an_eighth_of_the_instance() -> None:
    # p5.48xlarge 55.04, p4de.24xlarge 27.44705, p4d.24xlarge 21.957642 USD an hour, 8 GPUs each
    for gpu, instance in {"h100-sxm": 55.04, "a100-sxm-80gb": 27.44705, "a100-sxm-40gb": 21.957642}.items():
        price = price_of(gpu, "aws")
        assert price is not None
        assert price.usd_per_hour == pytest.approx(instance / 8, abs=5e-5)


def test_gpus_are_compared_at_one_provider_where_one_has_them_all() -> None:
    both = prices_for(["a100-sxm-80gb", "h100-sxm"])
    assert {price.provider for price in both.values()} == {"lambda"}
    # Lambda and AWS list no PCIe board, Azure no SXM one; RunPod lists both.
    mixed = prices_for(["a100-pcie-80gb", "h100-sxm"])
    assert {price.provider for price in mixed.values()} == {"runpod"}
    apart = prices_for(["h200-sxm", "a100-sxm-40gb"])  # nobody lists both
    assert (apart["h200-sxm"].provider, apart["a100-sxm-40gb"].provider) == ("runpod", "lambda")


def test_a_price_given_comes_first_and_a_missing_one_stays_missing() -> None:
    found = prices_for(["h100-sxm", "gaudi2"], given={"h100-sxm": 2.5})
    assert found["h100-sxm"].usd_per_hour == 2.5 and found["h100-sxm"].provider == "given"
    assert "gaudi2" not in found
    assert price_of("gaudi2") is None
    assert prices_for(["h200-sxm"], provider="aws") == {}


def test_prices_are_read_with_all_their_problems() -> None:
    assert parse_prices(["h100-sxm=2.5", " a40 = 0 "]) == {"h100-sxm": 2.5, "a40": 0.0}
    assert parse_prices(["mine=3"], gpus=["mine"]) == {"mine": 3.0}
    with pytest.raises(InputError) as error:
        parse_prices(["h100-sxn=2", "h100-sxm", "a40=-1", "l4=inf", "h20=1", "h20=2"])
    text = str(error.value)
    for part in ("h100-sxm", "GPU=USD_PER_HOUR", "-1", "inf", "has a price already, 1"):
        assert part in text
    with pytest.raises(InputError, match="lambda"):
        price_of("h100-sxm", "lamda")
    assert providers()[0] == "lambda"
