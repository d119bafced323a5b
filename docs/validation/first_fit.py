"""Fit the first efficiency files: python first_fit.py MEASURED_FOLDER [--all].

Prints parameters and errors of the chosen form of every operator; `--all` adds the forms that lost and the
errors by regime. Needs numpy and scipy.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from first_fit_dense import all_reduce, attention_decode, attention_prefill, connectors, elementwise, gemm
from first_fit_latent import mla_decode, mla_prefill_a100, mla_prefill_h100, moe
from first_fit_points import A100, H100, Array, Case, Mask, rows
from scipy.optimize import least_squares  # type: ignore[import-untyped]


def fit(case: Case) -> Array:
    """Parameters (SI) that minimise the soft-L1 loss of the log error over the fitted points."""
    units = np.array(case.units)
    share = np.array([name.endswith("_share") for name in case.names])
    lower, upper = np.where(share, 1e-4, 0.0), np.where(share, 1.0, np.inf)

    def residual(p: Array) -> Array:
        ratio: Array = np.log(case.predict(p * units)[case.fitted] / case.measured[case.fitted])
        return ratio

    tries = [
        least_squares(
            residual,
            start,
            bounds=(lower, upper),
            loss="soft_l1",
            f_scale=0.1,
            x_scale=np.maximum(start, 0.05),
        )
        for start in case.starts
    ]
    best = min(tries, key=lambda r: float(r.cost))
    return np.asarray(best.x * units)


def errors(case: Case, p: Array, points: Mask) -> str:
    """n, MAPE, median and bias over the points, in percent."""
    error = case.predict(p)[points] / case.measured[points] - 1
    return (
        f"n {error.size:5d}  mape {100 * np.mean(abs(error)):5.2f}  median {100 * np.median(abs(error)):5.2f}"
        f"  bias {100 * np.mean(error):+6.2f}"
    )


def group_error(case: Case, p: Array) -> str:
    """The same for sums over a group (all elementwise operators of one layer), held-out points only."""
    assert case.groups is not None
    index = case.groups[case.held]
    predicted = np.bincount(index, case.predict(p)[case.held])
    measured = np.bincount(index, case.measured[case.held])
    seen = measured > 0
    error = predicted[seen] / measured[seen] - 1
    return f"n {error.size:5d}  mape {100 * np.mean(abs(error)):5.2f}  bias {100 * np.mean(error):+6.2f}"


def show(case: Case, p: Array, detail: bool) -> None:
    """Print one fit."""
    values = "  ".join(f"{name}={value:.4g}" for name, value in zip(case.names, p, strict=True))
    print(
        f"{case.gpu:14s} {case.operator:18s} {'*' if case.chosen else ' '} {case.form}\n    {values}"
        + (f"   (benchmark only: {', '.join(case.nuisance)})" if case.nuisance else "")
    )
    print(f"    fitted    {errors(case, p, case.fitted)}\n    held out  {errors(case, p, case.held)}")
    if case.groups is not None:
        print(f"    held out, summed over a layer  {group_error(case, p)}")
    if detail and case.chosen:
        for name, points in case.checks.items():
            if points.any():
                print(f"      {name:32s} {errors(case, p, points)}")


def descriptors(folder: Path) -> None:
    """NIXL: seconds to post a descriptor, from the rows that state both the count and the posting time."""
    per = []
    for r in rows(folder, "kv_transfer/kv_transfer.csv"):
        if r["group"] == "vllm_nixl_metrics" and r["n_descriptors"] and "avg post" in r["note"]:
            post = float(r["note"].split("avg post ")[1].removeprefix("time ").split(" ms")[0]) * 1e-3
            per.append(post / float(r["n_descriptors"]))
            print(
                f"nixl {r['source']}: {per[-1] * 1e6:.2f} us posted per descriptor, "
                f"{(float(r['time_ms']) * 1e-3 / float(r['n_descriptors'])) * 1e6:.2f} us in all"
            )
    print(
        f"nixl geometric mean {np.exp(np.mean(np.log(per))) * 1e6:.2f} us, "
        f"one from the other {100 * (max(per) / min(per) - 1):.0f} %"
    )


def mooncake_vllm(folder: Path) -> None:
    """The packaged `mooncake-vllm`: least squares of the relative error over all sizes."""
    case = next(c for c in connectors(folder) if c.operator == "mooncake_vllm_pd")
    units = np.array(case.units)
    found = least_squares(lambda p: case.predict(p * units) / case.measured - 1, case.starts[0]).x
    error = abs(case.predict(found * units) / case.measured - 1)
    print(
        f"mooncake-vllm, all {error.size} sizes: {found[0]:.3f} ms, share {found[1]:.3f}, "
        f"mape {100 * np.mean(error):.1f}, largest {100 * np.max(error):.1f}"
    )


def chosen_gemm(folder: Path) -> Array:
    """The H100 GEMM parameters, which the MLA module's projections are modelled with."""
    return fit(gemm(folder, H100, "bf16")[0])


def cases(folder: Path) -> Iterator[Case]:
    """Every case of both GPUs, then the connectors."""
    projections = chosen_gemm(folder)
    for gpu in (A100, H100):
        yield from gemm(folder, gpu, "bf16")
        if gpu is H100:
            yield from gemm(folder, gpu, "fp8")
        yield from attention_prefill(folder, gpu)
        yield from attention_decode(folder, gpu)
        if gpu is A100:
            yield from mla_prefill_a100(folder, gpu)
        else:
            yield from mla_prefill_h100(folder, gpu, projections)
            yield from mla_decode(folder, gpu, projections)
        yield from moe(folder, gpu, "bfloat16")
        if gpu is H100:
            yield from moe(folder, gpu, "fp8_block")
        yield from elementwise(folder, gpu)
        yield from all_reduce(folder, gpu)
    yield from connectors(folder)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path, help="folder that holds aiconfigurator/, vidur/, kv_transfer/")
    parser.add_argument("--all", action="store_true", help="forms that lost and errors by regime too")
    options = parser.parse_args()
    for case in cases(options.measured):
        if case.chosen or options.all:
            show(case, fit(case), options.all)
    mooncake_vllm(options.measured)
    descriptors(options.measured)


if __name__ == "__main__":
    main()
