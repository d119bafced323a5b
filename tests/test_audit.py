"""Checks of records: bounds, identities, copies, load, series; what is absent and what compares."""

from __future__ import annotations

import tomllib

import pytest

from costmodel.audit.absent import absent_of, counted
from costmodel.audit.case import Case
from costmodel.audit.checks.bounds import check_bounds
from costmodel.audit.checks.copies import check_copies, invert_copies
from costmodel.audit.checks.explained import invert_bounds
from costmodel.audit.checks.identities import check_e2e, check_littles_law, check_rates
from costmodel.audit.checks.load import check_capacity
from costmodel.audit.checks.trends import check_growth, invert_series, line
from costmodel.audit.comparable import compared
from costmodel.audit.finding import Finding
from costmodel.records.packaged import load_records
from costmodel.records.read import records_of


def case_of(text: str) -> Case:
    (record,) = records_of(tomllib.loads(text), "test.toml", "test")
    return Case(record)


def figure(metric: str, value: float, unit: str, **more: object) -> str:
    lines = [f'metric = "{metric}"', f"value = {value}", f'unit = "{unit}"']
    lines += [f"{key} = {value!r}" for key, value in more.items()]
    return "[[measurement]]\n" + "\n".join(lines) + "\n"


def grades(found: object) -> list[tuple[str, str]]:
    return [(f.id, f.grade) for f in found]  # type: ignore[attr-defined]


# Qwen2.5-72B has 72.7e9 parameters, of which the input embedding (152064 x 8192 = 1.25e9) multiplies nothing:
# 2 x 71.46e9 x 8192 = 1.171e15 FLOP of products; attention adds 4 x 80 layers x 8192 wide x 8192^2 / 2 = 0.088e15, the
# head of all but one prompt token is not needed (-0.020e15): 1.239e15 / (4 x 148e12) = 2.09 s.
H20 = 'model = "Qwen2.5-72B-Instruct"\nhardware = "4x H20"\ninput_tokens = 8192\n'


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        (H20 + figure("ttft", 637, "ms"), "impossible"),
        (H20 + figure("ttft", 2.4, "s"), "holds"),
        # 2.09 / 2.2 = 95 % of peak: more than any product reaches
        (H20 + figure("ttft", 2.2, "s"), "suspicious"),
        # fp8 runs at 296 TFLOP/s: 1.05 s. Not stated, so 1.5 s contradicts bf16 alone.
        (H20 + figure("ttft", 1.5, "s"), "inconsistent"),
        (H20 + 'dtype = "bf16"\n' + figure("ttft", 1.5, "s"), "impossible"),
        (H20.replace("4x", "cluster of") + figure("ttft", 637, "ms"), "not_computable"),
        (H20.replace("Qwen2.5-72B-Instruct", "unheard-of") + figure("ttft", 637, "ms"), "not_computable"),
        # three quarters of the prompt cached: 0.56 s are left
        (H20 + "cached_tokens = 6144\n" + figure("ttft", 700, "ms"), "holds"),
        # 145.4 GB of weights / (4 x 4 TB/s) = 9.1 ms
        (H20 + figure("tpot", 8, "ms", dtype="bf16"), "impossible"),
        (H20 + figure("tpot", 10.5, "ms"), "holds"),
        (H20 + figure("tpot", 9.3, "ms"), "suspicious"),
        (H20 + 'engine_flags = "EAGLE speculative decoding"\n' + figure("tpot", 5, "ms"), "not_computable"),
        # 1.239e15 / 8192 FLOP a token: 592e12 / 1.513e11 = 3,914 tokens/s at most
        (H20 + figure("input_throughput", 4100, "tok/s", dtype="bf16"), "impossible"),
        (H20 + figure("input_throughput", 3400, "tok/s"), "holds"),
        (H20 + figure("input_throughput", 3800, "tok/s"), "suspicious"),
        # drafted tokens, by a note: three of them a step of 9.1 ms
        (H20 + figure("tpot", 3.1, "ms", note="with a 1B draft model"), "not_computable"),
        (H20 + figure("tpot", 3.1, "ms", note="greedy", dtype="bf16"), "impossible"),
        # a GPU that is not packaged: 2 x 4e9 x 8112 / 6.8e12 = 9.54 s for a prompt, 850 tokens/s
        (
            'model = "a 4B model"\nactive_parameters = 4e9\nhardware = "M2 Pro (6.8 TFLOP/s)"\ninput_tokens = 8112\n'
            + figure("input_throughput", 20701, "tok/s"),
            "impossible",
        ),
        (
            'model = "a 4B model"\nactive_parameters = 4e9\nhardware = "M2 Pro (6.8 TFLOP/s)"\ninput_tokens = 8112\n'
            + figure("input_throughput", 313, "tok/s"),
            "holds",
        ),
    ],
)
def test_bounds(text: str, grade: str) -> None:
    (found,) = check_bounds(case_of(text))
    assert found.grade == grade
    assert (found.arithmetic is None) == (grade == "not_computable") == (found.reason is not None)


def test_what_would_explain_a_figure_below_its_bound() -> None:
    found = {i.quantity: i for i in invert_bounds(case_of(H20 + figure("ttft", 637, "ms")))}
    assert found["mfu"].value == pytest.approx(2.09 / 0.637, rel=0.01) and found["mfu"].plausible is False
    # (1 - s) x 1.171e15 of products and (1 - s^2) x 0.088e15 of attention are 0.637 s x 592e12 at s = 0.71
    assert found["cached_share"].value == pytest.approx(0.71, abs=0.01)
    assert found["gpus_factor"].value == pytest.approx(2.09 / 0.637, rel=0.01)


def test_tokens_of_a_step_and_units_that_would_explain_a_time() -> None:
    # a step of 9.1 ms at least: 3.1 ms a token are 2.9 tokens a step
    found = {i.quantity: i for i in invert_bounds(case_of(H20 + figure("tpot", 3.1, "ms")))}
    assert found["tokens_per_step"].value == pytest.approx(2.93, rel=0.02) and "cached_share" not in found
    drafted = invert_bounds(case_of(H20 + 'engine = "EAGLE-3"\n' + figure("tpot", 3.1, "ms")))
    assert [i.quantity for i in drafted] == ["tokens_per_step"]
    # 2.5 ms for 2.09 s of work, which 2.5 s would be; 2.5 us would not be 2.5 ms
    found = {i.quantity: i for i in invert_bounds(case_of(H20 + figure("ttft", 2.5, "ms")))}
    assert found["unit_factor"].value == 1000 and " s instead of ms" in found["unit_factor"].said
    found = {i.quantity: i for i in invert_bounds(case_of(H20 + figure("ttft", 2.5, "us")))}
    assert "unit_factor" not in found and "cached_share" not in found


def test_a_cache_of_8_bits_that_is_not_stated_is_named() -> None:
    # Llama-3.1-8B: 15.0 GB of weights; 64 x 8192 x 131,072 B = 68.7 GB of KV: 25 ms at 3.35 TB/s, 14.7 ms in 8 bits
    text = 'model = "Llama-3.1-8B"\nhardware = "1x H100"\ndtype = "bf16"\nbatch = 64\ninput_tokens = 8192\n'
    (found,) = check_bounds(case_of(text + figure("tpot", 20, "ms")))
    assert found.grade == "inconsistent" and "an fp8 cache, not stated, would do" in found.said
    (found,) = check_bounds(case_of(text + 'kv_dtype = "bf16"\n' + figure("tpot", 20, "ms")))
    assert found.grade == "impossible"


@pytest.mark.parametrize(
    ("state", "grade"),
    [
        ("prefix caching on (default)", "not_computable"),
        ("prefix caching enabled, unique prompts", "impossible"),
        ("off", "impossible"),
    ],
)
def test_a_prompt_below_its_bound_where_a_cache_may_have_it(state: str, grade: str) -> None:
    text = H20 + f'dtype = "bf16"\ncache_state = "{state}"\n' + figure("ttft", 637, "ms")
    (found,) = check_bounds(case_of(text))
    assert found.grade == grade


RUN = (
    "output_tokens = 50\n"
    + figure("tpot", 39.3, "ms", statistic="mean")
    + figure("ttft", 426.7, "ms", statistic="mean")
)


@pytest.mark.parametrize(
    # 426.7 + 49 x 39.3 = 2352.4 ms
    ("e2e", "grade"),
    [(2350, "holds"), (2500, "suspicious"), (3000, "inconsistent"), (1500, "inconsistent")],
)
def test_e2e_is_the_sum_of_its_parts(e2e: float, grade: str) -> None:
    assert grades(check_e2e(case_of(RUN + figure("e2e", e2e, "ms", statistic="mean")))) == [
        ("e2e_identity", grade)
    ]


def test_medians_do_not_add_up_and_are_not_held_to_it() -> None:
    assert not list(check_e2e(case_of(RUN.replace("mean", "p50") + figure("e2e", 9, "s", statistic="p50"))))


@pytest.mark.parametrize(
    # 2.56/s x 219.5 s = 561.9 under way
    ("under_way", "grade"),
    [(561.7, "holds"), (640, "inconsistent"), (590, "suspicious")],
)
def test_littles_law_of_requests_under_way(under_way: float, grade: str) -> None:
    text = figure("request_throughput", 2.56, "req/s") + figure("e2e", 219.5, "s", statistic="mean")
    assert grades(check_littles_law(case_of(text + figure("requests_in_flight", under_way, "")))) == [
        ("littles_law", grade)
    ]


@pytest.mark.parametrize(
    # 2/s x 10 s = 20 under way
    ("clients", "grade"),
    [(20, "holds"), (24, "holds"), (18.5, "inconsistent"), (16, "impossible"), (64, "suspicious")],
)
def test_littles_law_of_a_closed_loop(clients: float, grade: str) -> None:
    text = f"concurrency = {round(clients)}\n" if clients != 18.5 else "concurrency = 18\n"
    # 18 clients: 20 / 18 = 1.11
    text += figure("request_throughput", 2, "req/s") + figure("e2e", 10, "s", statistic="mean")
    assert grades(check_littles_law(case_of(text))) == [("littles_law", grade)]


def test_tokens_a_second_follow_from_requests() -> None:
    # 13.18 requests/s x 512 tokens = 6,748 tokens/s; 64 x 4096 / 32.92 s = 7,963 tokens/s
    text = "output_tokens = 512\n" + figure("request_throughput", 13.18, "req/s")
    assert grades(check_rates(case_of(text + figure("output_throughput", 6748, "tok/s")))) == [
        ("rates", "holds")
    ]
    assert grades(check_rates(case_of(text + figure("output_throughput", 2566, "tok/s")))) == [
        ("rates", "inconsistent")
    ]
    burst = "requests = 64\ninput_tokens = 4096\n" + figure("duration", 32.92, "s")
    assert grades(check_rates(case_of(burst + figure("input_throughput", 7963, "tok/s")))) == [
        ("rates", "holds")
    ]


COPY = 'model = "DeepSeek-V2-Lite"\ninput_tokens = 512\n'


@pytest.mark.parametrize(
    # 512 x 27 layers x 576 x 2 B = 15.925 MB: 35.4 us at 450 GB/s, 637 us at 200 Gb/s, 5.1 ms at 25 Gb/s
    ("text", "check", "grade"),
    [
        (
            'link_bandwidth = "450 GB/s"\n' + figure("kv_transfer_time", 4.2, "s"),
            "far_above_wire",
            "inconsistent",
        ),
        (
            'link_bandwidth = "450 GB/s"\n' + figure("kv_transfer_time", 30, "us"),
            "faster_than_wire",
            "impossible",
        ),
        ('link_bandwidth = "450 GB/s"\n' + figure("kv_transfer_time", 5, "ms"), "faster_than_wire", "holds"),
        ('link = "200 Gbps InfiniBand"\n' + figure("kv_transfer_time", 1, "ms"), "faster_than_wire", "holds"),
        (
            'link = "200 Gbps InfiniBand"\n' + figure("kv_transfer_time", 0.6, "ms"),
            "faster_than_wire",
            "suspicious",  # of how many ports is not said
        ),
        (
            'link = "one 200 Gbps InfiniBand port"\n' + figure("kv_transfer_time", 0.6, "ms"),
            "faster_than_wire",
            "impossible",
        ),
        ('link = "ib-hdr"\n' + figure("kv_transfer_time", 0.6, "ms"), "faster_than_wire", "suspicious"),
        (
            'link = "ib-hdr"\nnics = 1\n' + figure("kv_transfer_time", 0.6, "ms"),
            "faster_than_wire",
            "impossible",
        ),
        ('link = "4x400G IB"\n' + figure("kv_transfer_time", 0.1, "ms"), "faster_than_wire", "holds"),
        (
            'link = "NVLink"\nhardware = "2x A100"\n' + figure("kv_transfer_time", 40, "us"),
            "faster_than_wire",
            "impossible",
        ),
        (
            'link = "8x ConnectX-7 RoCE"\n' + figure("kv_transfer_time", 30, "us"),
            "faster_than_wire",
            "impossible",
        ),
    ],
)
def test_copies_against_the_wire(text: str, check: str, grade: str) -> None:
    assert grades(check_copies(case_of(COPY + text))) == [(check, grade)]


def test_without_a_link_no_link_would_do() -> None:
    found = list(check_copies(case_of(COPY + figure("kv_transfer_time", 4.2, "s"))))
    assert grades(found) == [("faster_than_wire", "not_computable"), ("far_above_wire", "inconsistent")]
    (rate,) = invert_copies(case_of(COPY + figure("kv_transfer_time", 4.2, "s")))
    assert rate.value == pytest.approx(15.925e6 / 4.2, rel=1e-3) and rate.plausible is None and rate.reason


def test_no_copy_without_bytes() -> None:
    text = 'link = "ib-hdr"\n' + figure("kv_transfer_time", 4.2, "s")
    assert grades(check_copies(case_of(text))) == [("faster_than_wire", "not_computable")]
    (rate,) = invert_copies(case_of(text))
    assert rate.value is None and rate.reason


def test_more_than_the_wire_carries() -> None:
    text = 'link = "4x200 Gbps RoCE"\n'
    assert grades(check_copies(case_of(text + figure("transfer_bandwidth", 87, "GB/s")))) == [
        ("faster_than_wire", "holds")
    ]
    assert grades(check_copies(case_of(text + figure("transfer_bandwidth", 101, "GB/s")))) == [
        ("faster_than_wire", "impossible")
    ]


def test_a_rate_that_no_gpu_can_sustain() -> None:
    # 2.09 s of four H20 a prompt: 0.478 prompts/s at peak
    for rate, grade in ((0.6, "impossible"), (0.4, "holds")):
        text = H20 + 'dtype = "bf16"\n' + figure("goodput", rate, "req/s")
        assert grades(check_capacity(case_of(text))) == [("above_capacity", grade)]


@pytest.mark.parametrize(
    ("stated", "grade", "cause"),
    [
        # 0.6/s of the 0.478/s that bf16 allows: fp8 allows twice that
        ("", "inconsistent", "fp8 weights, not stated"),
        ('dtype = "bf16"\ncache_state = "prefix caching on"\n', "suspicious", "stated as on"),
        ('dtype = "bf16"\ncached_tokens = 0\ncache_state = "on"\n', "impossible", ""),
        ('dtype = "bf16"\ncached_tokens = 4096\n', "holds", ""),
    ],
)
def test_what_excuses_a_rate_above_capacity(stated: str, grade: str, cause: str) -> None:
    (found,) = check_capacity(case_of(H20 + stated + figure("goodput", 0.6, "req/s")))
    assert found.grade == grade and cause in found.said


def test_a_line_through_three_points_that_lie_on_one() -> None:
    assert line([(1, 5.0), (3, 9.0), (10, 23.0)]) == pytest.approx((3.0, 2.0, 0.0))


def test_a_series_of_copies_has_a_latency_and_a_bandwidth() -> None:
    # gpt-oss-120b: 18 full layers of 8 x 64, K and V in 2 B = 36,864 B a token; (550.5 - 49) ms / 47,104 = 10.65 us
    rows = zip((2048, 8192, 16384, 32768, 49152), (49.0, 120.1, 196.2, 376.3, 550.5))
    text = 'model = "openai/gpt-oss-120b"\n' + "".join(
        figure("kv_transfer_time", ms, "ms", input_tokens=n) for n, ms in rows
    )
    found = {i.quantity: i.value for i in invert_series(case_of(text))}
    assert found["effective_bytes_per_s"] == pytest.approx(36864 / 10.65e-6, rel=0.02)
    assert found["latency_s"] == pytest.approx(0.027, rel=0.05)


def test_clients_that_wait_for_each_other() -> None:
    text = "".join(figure("ttft", n * 0.1, "s", concurrency=n) for n in (1, 2, 5, 10))
    (service,) = [i for i in invert_series(case_of(text)) if i.quantity == "service_s"]
    assert service.value == pytest.approx(0.1)


def test_a_burst_that_is_served_one_by_one() -> None:
    # mean TTFT = 38 ms + N / 2 x 3.43 ms
    text = "".join(figure("ttft", 38 + n / 2 * 3.43, "ms", burst=n) for n in (1, 32, 128, 1024))
    (service,) = [i for i in invert_series(case_of(text)) if i.quantity == "service_s"]
    assert service.value == pytest.approx(3.43e-3)


def test_times_that_do_not_grow_with_the_prompt() -> None:
    # from 1,024 to 8,192 tokens the work at peak grows by about 1.85 s on four H20
    for last, grade in ((2.9, "holds"), (1.5, "suspicious"), (0.6, "inconsistent")):
        rows = zip((1024, 4096, 8192), (0.4, 0.5, last))
        text = H20.replace("input_tokens = 8192\n", "")
        text += "".join(figure("ttft", s, "s", input_tokens=n) for n, s in rows)
        assert grades(check_growth(case_of(text))) == [("growth_with_tokens", grade)]


FULL = """
model = "Qwen3-8B"
hardware = "h100-sxm"
concurrency = 4
input_tokens = 512
output_tokens = 128
engine = "vLLM"
engine_version = "0.11.0"
warmup = "10 requests"
scenario = "closed loop"
cache_state = "cold"
tp = 1
arrival_process = "closed loop"
"""


def test_nothing_is_absent_of_a_report_that_states_all() -> None:
    assert absent_of(case_of(FULL + figure("ttft", 50, "ms")).record) == ()


@pytest.mark.parametrize(
    ("key", "condition"),
    [
        ("model", "model"),
        ("hardware", "hardware"),
        ("concurrency", "batch or concurrency"),
        ("input_tokens", "input length"),
        ("output_tokens", "output length"),
        ("engine_version", "engine version"),
        ("warmup", "warm-up"),
        ("scenario", "scenario"),
    ],
)
def test_each_absent_condition_is_named_with_what_recovers_it(key: str, condition: str) -> None:
    text = "\n".join(row for row in FULL.splitlines() if not row.startswith(f"{key} ="))
    found = absent_of(case_of(text + "\n" + figure("ttft", 50, "ms")).record)
    (absent,) = [each for each in found if each.condition == condition]
    assert absent.recovered_by and absent.asked == (condition != "scenario")
    assert counted(found) == (int(absent.asked), 7)


def test_a_condition_that_some_figures_lack_is_told_of_those() -> None:
    text = FULL.replace("concurrency = 4\n", "") + figure("ttft", 1, "s", id="a", concurrency=4)
    (absent,) = absent_of(case_of(text + figure("ttft", 1, "s", id="b")).record)
    assert (absent.condition, absent.of) == ("batch or concurrency", ("b",))
    assert counted((absent,)) == (0, 7)


def test_a_changed_engine_needs_its_build() -> None:
    text = FULL + 'engine_changes = "own scheduler"\n'
    (absent,) = absent_of(case_of(text + figure("ttft", 1, "s")).record)
    assert absent.condition == "engine version" and "own scheduler" in absent.reason
    assert not absent_of(case_of(text + 'engine_build = "1a2b3c"\n' + figure("ttft", 1, "s")).record)


def test_an_absent_value_stays_absent_through_every_computation() -> None:
    text = "\n".join(row for row in FULL.splitlines() if not row.startswith(("input_tokens", "hardware")))
    case = case_of(text + "\n" + figure("ttft", 50, "ms") + figure("output_throughput", 50, "tok/s"))
    assert {f.grade for f in check_bounds(case)} == {"not_computable"}
    assert not list(invert_bounds(case))


def _compared(text: str, findings: tuple[Finding, ...] = ()) -> tuple[set[str], set[str]]:
    yes, no = compared(case_of(text), findings)
    assert all(each.reasons and all(each.reasons) for each in (*yes, *no))
    return {each.what for each in yes}, {each.what for each in no}


def test_without_a_scenario_neither_offline_nor_server() -> None:
    yes, no = _compared(FULL.replace('scenario = "closed loop"\n', "") + figure("ttft", 1, "s"))
    assert "MLPerf Offline and Server" in no
    yes, no = _compared(FULL + figure("ttft", 1, "s"))
    assert not any(what.startswith("MLPerf") for what in yes | no)
    yes, no = _compared(FULL.replace('"closed loop"', '"MLPerf Server"', 1) + figure("ttft", 1, "s"))
    assert "MLPerf Server" in yes and "MLPerf Offline" in no


def test_open_and_closed_loops() -> None:
    yes, no = _compared(FULL + figure("ttft", 1, "s"))
    assert "closed-loop results" in yes and "open-loop results" in no
    bare = "\n".join(
        row for row in FULL.splitlines() if not row.startswith(("concurrency", "scenario", "arrival"))
    )
    yes, no = _compared(bare + "\narrival_rate = 2\n" + figure("ttft", 1, "s"))
    assert "open-loop results" in yes and "closed-loop results" in no
    yes, no = _compared(bare + "\n" + figure("ttft", 1, "s"))
    assert {"open-loop results", "closed-loop results"} <= no


@pytest.mark.parametrize(
    ("stated", "open_", "closed", "because"),
    [
        ("arrival_rate = 3.2\nconcurrency = 640\n", False, False, "up to the limit"),
        ('arrival_process = "all at once"\n', False, False, "at once"),
        ('arrival_process = "request rate inf"\nconcurrency = 64\n', False, True, ""),
        ('arrival_process = "Poisson"\n', True, False, ""),
    ],
)
def test_how_requests_come(stated: str, open_: bool, closed: bool, because: str) -> None:
    yes, no = compared(case_of(stated + figure("ttft", 1, "s")), ())
    named = {each.what for each in yes}
    assert (("open-loop results" in named), ("closed-loop results" in named)) == (open_, closed)
    reasons = [reason for each in no if each.what.endswith("-loop results") for reason in each.reasons]
    assert all(because in reason for reason in reasons) and len(reasons) == 2 - open_ - closed
    lacking = [each.reasons for each in no if each.what.startswith("a prediction")]
    assert not any("neither concurrency" in reason for reasons in lacking for reason in reasons)


def test_throughput_that_names_its_tokens_is_not_asked_what_it_counts() -> None:
    both = figure("output_throughput", 100, "tok/s") + figure("total_throughput", 200, "tok/s")
    assert "output tokens a second" not in _compared(FULL + both)[1]
    assert "output tokens a second" in _compared(FULL + figure("throughput", 200, "tok/s"))[1]


def test_a_release_is_said_once_and_two_engines_are_two() -> None:
    bare = "\n".join(row for row in FULL.splitlines() if not row.startswith("engine")) + "\n"
    _, no = _compared(bare + 'engine = "vLLM 0.18.1 with modified scheduler"\n' + figure("ttft", 1, "s"))
    assert "runs of vLLM 0.18.1 with modified scheduler" in no
    one, two = (figure("ttft", 1, "s", engine=engine, engine_version="1.0") for engine in ("vLLM", "SGLang"))
    yes, no = _compared(bare + one + two)
    assert "its engines with each other" in no and not any("runs of" in what for what in yes | no)


def test_conditions_of_runs_are_not_asked_of_what_a_start_up_prints() -> None:
    text = 'model = "Llama-3.1-8B"\nhardware = "H100"\n' + figure("kv_cache_tokens", 476016, "tokens")
    found = absent_of(case_of(text).record)
    assert [each.condition for each in found] == ["engine version"]
    assert counted(found, [case_of(text).record]) == (1, 3)
    found = absent_of(case_of(text + figure("ttft", 1, "s", id="ttft")).record)
    assert {"warm-up", "input length", "scenario"} <= {each.condition for each in found if not each.of}


def test_one_gpu_has_one_layout() -> None:
    for hardware, asked in (("1x H100", False), ("H100", True), ("2x H100", True)):
        found = absent_of(case_of(f'hardware = "{hardware}"\n' + figure("ttft", 1, "s")).record)
        assert ("topology" in {each.condition for each in found}) == asked


def test_from_when_ttft_counts() -> None:
    yes, no = _compared(FULL + figure("ttft", 1, "s"))
    assert {"TTFT counted from arrival", "TTFT counted from scheduling"} <= no
    yes, no = _compared(FULL + 'ttft_from = "arrival at the client"\n' + figure("ttft", 1, "s"))
    assert "TTFT counted from arrival" in yes and "TTFT counted from scheduling" in no


def test_two_definitions_of_tpot() -> None:
    _, no = _compared(FULL + figure("itl", 1, "s"))
    assert {"TPOT, (E2E - TTFT) / (OSL - 1) of each request", "ITL, all gaps between tokens"} <= no
    yes, _ = _compared(FULL + 'tpot_definition = "(E2E - TTFT) / (OSL - 1)"\n' + figure("tpot", 1, "s"))
    assert "TPOT, (E2E - TTFT) / (OSL - 1) of each request" in yes


def test_a_unit_slip_forbids_decimal_comparisons() -> None:
    slip = Finding("binary_as_decimal", "inconsistent", ("a",), "GiB labelled GB", "x")
    _, no = _compared(FULL + figure("ttft", 1, "s"), (slip,))
    assert "sizes and bandwidths in decimal GB" in no


def test_the_first_record_lacks_four_of_seven_conditions() -> None:
    (record,) = load_records("kairos")
    found = absent_of(record)
    assert [each.condition for each in found if each.asked] == [
        "batch or concurrency", "output length", "engine version", "warm-up",
    ]  # fmt: skip
    assert counted(found) == (4, 7)
    assert {"scenario", "link and its bandwidth"} <= {each.condition for each in found}
