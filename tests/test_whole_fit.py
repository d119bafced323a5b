"""Stacks fitted to made-up measurements: parameters come back, what is held out is not seen, files are read back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from made_stacks import A100, H100, stack_of

from costmodel.errors import InputError
from costmodel.families import read_model
from costmodel.inputs.hardware import load_gpu
from costmodel.inputs.stack import ANY, Measured, Parameters, Stack, StackFit, load_stack, stack_names
from costmodel.serving.closed_loop import Loop
from costmodel.serving.work import Chunk
from costmodel.whole.calibrate import ALTERNATE, MIDDLE, calibrate_stacks, once, possible
from costmodel.whole.fit import LARGE_MESSAGE, fit_stack
from costmodel.whole.predict import Instances, predict
from costmodel.whole.runs import Setting, Shape, Whole, used
from costmodel.whole.write import stack_toml

pytest.importorskip("scipy")

LLAMA_70B, LLAMA_8B = "meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-8B"


@pytest.fixture(scope="module")
def instances() -> Instances:
    return Instances()


def setting_of(model: str, gpu: str = H100, tp: int = 1, dtype: str | None = None) -> Setting:
    return Setting(read_model(model), load_gpu(gpu), tp, 1, dtype)


def measured(run: Whole, stack: Stack, instances: Instances, factor: float = 1.0) -> Whole:
    """The run with what is predicted of it under a stack in place of its times, times a factor."""
    found = predict(run, instances.of(run.setting, stack))
    return replace(run, seconds={name: factor * found[name].best for name in run.seconds})


def loops(setting: Setting, engine: str = "vllm", line: int = 0) -> list[Whole]:
    return [
        Whole(
            "end_to_end", engine, setting, Loop(isl, 200, clients), {"ttft": 1.0, "tpot": 1.0}, "made", line
        )
        for isl in (500, 4000)
        for clients in (1, 2, 4, 8)
    ]


def steps(setting: Setting) -> list[Whole]:
    prompts = [Shape(chunks=(Chunk(tokens),) * n) for tokens in (128, 1000, 4000) for n in (1, 4)]
    decodes = [Shape(batch=n, context=n * length) for length in (128.0, 4000.0) for n in (1, 16, 64)]
    return [
        *(Whole("step", "not stated", setting, shape, {"prefill": 1.0}, "made", 0) for shape in prompts),
        *(Whole("step", "not stated", setting, shape, {"decode": 1.0}, "made", 0) for shape in decodes),
    ]


def made_of(runs: Iterable[Whole], stack: Stack, instances: Instances, factor: float = 1.0) -> list[Whole]:
    return [measured(run, stack, instances, factor) for run in runs]


# --- parameters come back ---------------------------------------------------------------------------------


def test_loops_give_back_the_stack_that_made_them(instances: Instances) -> None:
    own = stack_of(narrow_factor=1.25, request_latency=0.03, name="loops")
    runs = [run for tp in (1, 2, 4) for run in loops(setting_of(LLAMA_70B, "h200-sxm", tp, "fp8"))]
    found = fit_stack(made_of(runs, own, instances), instances)
    assert found.narrow_factor == pytest.approx(1.25, rel=0.01)
    assert found.request_latency == pytest.approx(0.03, rel=0.02)
    # launches and waits of layers can hardly be told apart: together they are what was put in
    assert found.launch_share == pytest.approx(1.0, abs=0.1)
    assert found.layer_latency < 2e-6
    assert (found.kernel_factor, found.layer_floor, found.sequence_latency) == (1.0, 0.0, 0.0)


def test_loops_show_a_wait_of_each_layer(instances: Instances) -> None:
    own = stack_of(layer_latency=40e-6, request_latency=0.1, name="waits")
    runs = [run for tp in (1, 4) for run in loops(setting_of(LLAMA_8B, H100, tp))]
    runs += loops(setting_of(LLAMA_70B, "h200-sxm", 4, "fp8"))
    found = fit_stack(made_of(runs, own, instances), instances)
    assert found.request_latency == pytest.approx(0.1, rel=0.02)
    # 10 launches or so of 4 us a layer beside it
    assert found.layer_latency == pytest.approx(40e-6, rel=0.25)


def test_steps_give_back_the_stack_that_made_them(instances: Instances) -> None:
    own = stack_of(
        kernel_factor=1.3, layer_floor=4e-4, sequence_latency=3e-4, request_latency=0.015,
        large_message=LARGE_MESSAGE, large_message_rate=40e9, name="steps",
    )  # fmt: skip
    runs = [run for tp in (2, 8) for run in steps(setting_of("Llama-2-70b-hf", A100, tp))]
    found = fit_stack(made_of(runs, own, instances), instances)
    wanted = own.fits[ANY].parameters
    for name in ("kernel_factor", "layer_floor", "sequence_latency", "request_latency", "large_message_rate"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=0.02), name
    assert (found.launch_share, found.narrow_factor, found.layer_latency) == (1.0, 1.0, 0.0)


def test_errors_of_a_few_percent_do_not_pull_it_far(instances: Instances) -> None:
    own = stack_of(kernel_factor=1.2, layer_floor=3e-4, request_latency=0.02, name="noisy")
    runs = steps(setting_of("Llama-2-70b-hf", H100, 4))
    noisy = [
        measured(run, own, instances, 1 + 0.03 * (-1) ** place) for place, run in enumerate(runs)
    ]  # the one and the other side
    noisy[3] = measured(runs[3], own, instances, 3.0)  # and one that is far off
    found = fit_stack(noisy, instances)
    assert found.kernel_factor == pytest.approx(1.2, rel=0.06)
    assert found.layer_floor == pytest.approx(3e-4, rel=0.1)


def test_the_queue_of_many_clients_is_not_fitted_to(instances: Instances) -> None:
    own = stack_of(request_latency=0.03, name="queue")
    runs = made_of(loops(setting_of(LLAMA_8B)), own, instances)
    late = [
        replace(run, seconds={**run.seconds, "ttft": 9 * run.seconds["ttft"]})
        if run.what.concurrency > 4
        else run
        for run in runs
        if isinstance(run.what, Loop)
    ]
    assert late != runs
    assert fit_stack(late, instances) == fit_stack(runs, instances)
    assert not used(late[3], "ttft") and used(late[3], "tpot") and used(late[2], "ttft")
    with pytest.raises(InputError, match="no run to fit"):
        fit_stack([], instances)


# --- calibrate --------------------------------------------------------------------------------------------


def calibrated(runs: list[Whole], instances: Instances, choice: Any = ALTERNATE, **names: str) -> list[Stack]:
    return calibrate_stacks(runs, instances, names, "own runs", "2026-01-31", choice)


def test_every_second_configuration_is_held_out(instances: Instances) -> None:
    """Times of those held out are twice as long: the fit does not see it, and is off by ln 2 there."""
    own = stack_of(narrow_factor=1.1, request_latency=0.04, name="held")
    runs = []
    for place, tp in enumerate((1, 2, 4, 8)):
        runs += made_of(loops(setting_of(LLAMA_8B, H100, tp)), own, instances, 2.0 if place % 2 else 1.0)
    (stack,) = calibrated(runs, instances, vllm="mine")
    assert (stack.name, stack.engine, stack.version, set(stack.fits)) == (
        "mine",
        "vllm",
        "not stated",
        {H100},
    )
    fit = stack.fits[H100]
    assert fit.fitted_on == ("Llama-3.1-8B bf16 TP1", "Llama-3.1-8B bf16 TP4")
    for measure, points in (("tpot", 16), ("ttft", 12)):  # TTFT of up to 4 clients
        found = fit.errors[measure]
        assert (found.points, found.held_out_points) == (points, points)
        assert found.fitted_log is not None and found.fitted_log < 0.01
        assert found.held_out_log == pytest.approx(0.693, abs=0.02)


def test_the_middle_configuration_is_held_out(instances: Instances) -> None:
    own = stack_of(kernel_factor=1.2, layer_floor=4e-4, request_latency=0.02, name="middle")
    runs = [
        run
        for tp in (2, 4, 8)
        for run in made_of(steps(setting_of("Llama-2-70b-hf", A100, tp)), own, instances)
    ]
    (stack,) = calibrated(runs, instances, MIDDLE)
    fit = stack.fits[A100]
    assert fit.fitted_on == ("Llama-2-70b-hf fp16 TP2", "Llama-2-70b-hf fp16 TP8")
    assert all((e.points, e.held_out_points) == (12, 6) for e in fit.errors.values())
    assert all(e.held_out_log is not None and e.held_out_log < 0.01 for e in fit.errors.values())


def test_one_configuration_makes_no_stack_and_two_gpus_make_one_for_any(instances: Instances) -> None:
    own = stack_of(request_latency=0.04, name="two")
    single = made_of(loops(setting_of(LLAMA_8B)), own, instances)
    assert calibrated(single, instances) == []
    runs = [
        run
        for gpu in (H100, "h200-sxm")
        for tp in (1, 2)
        for run in made_of(loops(setting_of(LLAMA_8B, gpu, tp)), own, instances)
    ]
    (stack,) = calibrated(runs, instances)
    assert set(stack.fits) == {H100, "h200-sxm", ANY}
    fit = stack.fits[ANY]
    assert fit.fitted_on == (f"{H100} Llama-3.1-8B bf16 TP1", "h200-sxm Llama-3.1-8B bf16 TP1")
    for found in fit.errors.values():
        assert found.held_out_log is None and found.carried_log is not None and found.carried_log < 0.02


def test_runs_faster_than_physics_and_repeated_ones_are_set_aside(instances: Instances) -> None:
    run = measured(loops(setting_of(LLAMA_8B))[0], stack_of(name="one"), instances)
    fast = replace(run, seconds={"tpot": 1e-3})  # 16 GB at 3.35 TB/s take 4.8 ms
    kept, why = possible([run, fast], instances)
    assert kept == [run] and sum(why.values()) == 1
    found, again = once([run, replace(run, line=9), fast])
    assert again == 1 and len(found) == 2 and run in found and fast in found
    # in the same order however the table is
    assert once([fast, replace(run, line=9), run])[0][0].seconds == found[0].seconds


# --- files ------------------------------------------------------------------------------------------------


def assert_same_stack(one: Stack, other: Stack) -> None:
    """Four digits of parameters and of errors are kept."""
    assert (one.engine, one.version, one.date, one.source) == (
        other.engine,
        other.version,
        other.date,
        other.source,
    )
    assert one.fits.keys() == other.fits.keys()
    for gpu, fit in one.fits.items():
        again = other.fits[gpu]
        assert fit.fitted_on == again.fitted_on and fit.errors.keys() == again.errors.keys()
        for field in fields(Parameters):
            values = getattr(fit.parameters, field.name), getattr(again.parameters, field.name)
            assert values[0] == pytest.approx(values[1], rel=1e-3), field.name
        for measure, error in fit.errors.items():
            for field in fields(Measured):
                values = getattr(error, field.name), getattr(again.errors[measure], field.name)
                assert (values[0] or 0) == pytest.approx(values[1] or 0, abs=5e-5), (measure, field.name)


def test_a_written_stack_is_read_back(tmp_path: Path) -> None:
    errors = {
        "prefill": Measured(0.012345, 25, 0.1, 13),
        "decode": Measured(0.5, 3, None, 0, carried_log=0.25, versions_log=0.3),
    }
    parameters = Parameters(1.061, 0.89, 0.5, 1.2345e-6, 5.589e-4, 3.571e-4, 2.0**25, 23.76e9, 0.0185)
    whole = StackFit("mine", H100, parameters, errors, ("A bf16 TP1", "B fp8 TP8 EP4"), "own")
    bare = StackFit("mine", ANY, Parameters(), {"tpot": Measured(0.1, 3)}, (f"{H100} A bf16 TP1",), "own")
    stack = Stack("mine", "vllm", "0.9", "2026-01-31", 'runs "of" mine', {H100: whole, ANY: bare})
    path = tmp_path / "mine.toml"
    path.write_text(stack_toml(stack))
    assert_same_stack(load_stack(path), stack)
    assert "kernel_factor" not in path.read_text().partition("[fits.any]")[2]  # what it leaves as it is


@pytest.mark.parametrize("name", stack_names())
def test_packaged_stacks_are_as_they_would_be_written(tmp_path: Path, name: str) -> None:
    stack = load_stack(name)
    path = tmp_path / f"{name}.toml"
    path.write_text(stack_toml(stack))
    assert_same_stack(load_stack(path), stack)


def test_models_of_the_same_layers_are_one(instances: Instances) -> None:
    """DeepSeek-V3 and R1 differ in nothing that a step sees: one configuration, of the name that comes first."""
    runs = [
        Whole("end_to_end", "own", Setting(read_model(name), load_gpu("h200-sxm"), 8), Loop(1024, 64, clients),
              {"tpot": time}, "made", line)
        for line, (name, clients, time) in enumerate([
            ("DeepSeek-V3", 1, 0.01), ("DeepSeek-R1", 1, 0.01), ("DeepSeek-V3", 4, 0.02), ("Qwen3-8B", 1, 0.01),
        ])
    ]  # fmt: skip
    for order in (runs, runs[::-1]):
        found, again = once(order)
        assert again == 1
        assert sorted(run.setting.key for run in found) == [
            "DeepSeek-R1 fp8 TP8", "DeepSeek-R1 fp8 TP8", "Qwen3-8B bf16 TP8",
        ]  # fmt: skip
