"""Traces and logs of every known format: what they become, and what each mistake is told."""

from __future__ import annotations

import csv
import gzip
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.inputs.traces import (
    LoggedRequest,
    Notes,
    Reading,
    Trace,
    check_trace,
    read_log,
    read_trace,
    requests_of,
    trace_workload,
)
from costmodel.inputs.workload import LONGEST, Request, Slo

SHARED = Path(__file__).parents[2] / "shared"
HEAD = "arrival_s,prompt_tokens,output_tokens"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="no shared measurements here")


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Write a trace, of text or of JSON objects a line, and return its path."""

    def to_file(*lines: str | dict[str, Any], name: str = "trace") -> Path:
        path = tmp_path / name
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("\n".join(texts) + "\n", encoding="utf-8")
        return path

    return to_file


def said(path: Path, how: Reading | None = None) -> str:
    """What reading a bad trace says."""
    with pytest.raises(InputError) as caught:
        list(read_trace(path, how or Reading()))
    assert str(caught.value).startswith(str(path))
    return str(caught.value)


# --- CSV of one's own -----------------------------------------------------------------------------------


def test_hits_of_a_whole_prompt_leave_its_last_token(write: Any) -> None:
    path = write(HEAD + ",cached_prefix_tokens", "0,10,1,10", "1,10,1,12", "2,10,1,4")
    assert list(read_trace(path)) == [Request(0, 1, 9, 1), Request(1, 1, 9, 1), Request(2, 6, 4, 1)]
    assert "both say what is cached" in said(write(HEAD + ",cached_prefix_tokens,cached_tokens", "0,9,1,0,0"))


def test_gzip_is_told_by_content(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    whole = gzip.compress((HEAD + "\n" + "0,5,1\n" * 5000).encode())
    path.write_bytes(whole)
    assert sum(1 for _ in read_trace(path)) == 5000
    path.write_bytes(whole[: len(whole) // 2])
    assert "a damaged gzip file" in said(path)


def test_a_quoted_line_break_does_not_shift_line_numbers(write: Any) -> None:
    path = write(HEAD + ",note", '0,5,1,"two\nlines"', "1,5,1,x", "2,x,1,y")
    assert "line 5: prompt_tokens 'x'" in said(path)


@pytest.mark.parametrize("bad", [0, 1, 255, 256, 700])
def test_the_row_and_both_times_of_a_wrong_order(write: Any, bad: int) -> None:
    rows = [f"{i},5,1" for i in range(800)]
    rows[bad + 1] = f"{bad - 0.5},5,1" if bad else "-1,5,1"
    text = said(write(HEAD, *rows))  # the header is line 1, row 0 is line 2
    assert f"line {bad + 3}: " in text
    if bad:
        assert f"arrival_s {bad - 0.5} comes after {bad}; sort the trace by arrival" in text


@pytest.mark.parametrize(
    "cell", ["1_0", "+5", "٣", "5.0", "0", f"{LONGEST + 1}", "9" * 5000, "nan", "", "-1"]
)
def test_counts_are_plain_in_any_row(write: Any, cell: str) -> None:
    rows = [f"{i},5,1" for i in range(300)]
    rows[280] = f"280,{cell},1"
    assert "line 282: prompt_tokens " in said(write(HEAD, *rows))


@pytest.mark.parametrize("cell", ["1_0", "٣", "nan", "inf", "-1", "1e11", "", "0x1"])
def test_times_are_plain_in_any_row(write: Any, cell: str) -> None:
    rows = ["0,5,1"] * 300
    rows[280] = f"{cell},5,1"
    assert "line 282: arrival_s " in said(write(HEAD, *rows))


def test_all_problems_of_the_first_bad_row(write: Any) -> None:
    text = said(write(HEAD + ",request_id", "2,5,1,a", "1,0,x,a", "y,y,y,y"))
    for part in (
        "comes after 2",
        "prompt_tokens '0'",
        "output_tokens 'x'",
        "request_id 'a' stands in an earlier",
    ):
        assert f"line 3: {part}" in text or part in text
    assert "line 4" not in text and "4 problems" in text


def test_ids_come_once(write: Any) -> None:
    rows = [f"{i},5,1,r{i}" for i in range(600)]
    assert sum(1 for _ in read_trace(write(HEAD + ",request_id", *rows))) == 600
    rows[500] = "500,5,1,r3"
    assert "line 502: request_id 'r3' stands in an earlier row too" in said(
        write(HEAD + ",request_id", *rows)
    )


def test_a_trace_without_times(write: Any) -> None:
    path = write("prompt_tokens,output_tokens", "5,1", "6,2")
    assert "missing column 'arrival_s'" in (text := said(path))
    assert "--rate" in text and "--concurrency" in text
    assert list(read_trace(path, Reading(timed=False))) == [Request(0, 5, 0, 1), Request(0, 6, 0, 2)]
    assert check_trace(path, Reading(timed=False)).rate is None


def test_rows_are_selected_by_any_column(write: Any) -> None:
    path = write(HEAD + ",tenant", *(f"{i},{i + 1},1,{'ab'[i % 2]}" for i in range(600)))
    assert [r.isl for r in islice(read_trace(path, Reading(select={"tenant": "b"})), 3)] == [2, 4, 6]
    assert sum(1 for _ in read_trace(path, Reading(select={"tenant": "a"}))) == 300
    ragged = write(HEAD + ",", "0,5,1,a", "1,5,1", "2,5,1,a")
    assert "line 3: 3 cells, the header has 4" in said(ragged, Reading(select={"prompt_tokens": "5"}))
    path = write(HEAD + ",tenant,", "0,5,1,a,same", "1,5,1,b,same", "2,0,1,c,same")
    assert [r.isl for r in islice(read_trace(path), 2)] == [5, 5]  # a column without a name holds no ids
    path = write(HEAD + ",tenant", "0,5,1,a", "1,5,1,b")
    assert "unknown tenant 'c'" in (text := said(path, Reading(select={"tenant": "c"}))) and "a, b" in text
    assert "missing column 'tenent'; nearest present: 'tenant'" in said(path, Reading(select={"tenent": "a"}))


def test_sessions_repeat_what_they_held(write: Any) -> None:
    path = write(
        HEAD + ",session_id", "0,100,20,a", "1,50,5,b", "2,150,10,a", "3,160,1,a", "4,40,1,a", "5,9,1,"
    )
    # a: 100 + 20 = 120 of 150; then 160 of 160, of which the last is computed; then 161 > 40: begun anew
    cached = [0, 0, 120, 159, 0, 0]
    assert [r.cached_tokens for r in read_trace(path, Reading(sessions=True))] == cached
    assert [r.isl for r in read_trace(path, Reading(sessions=True))] == [100, 50, 150, 160, 40, 9]
    assert not any(r.cached_tokens for r in read_trace(path))
    assert "missing column 'session_id'" in said(write(HEAD, "0,5,1"), Reading(sessions=True))
    both = write(HEAD + ",session_id,cached_tokens", "0,5,1,a,0")
    assert "cached_tokens already says what is cached" in said(both, Reading(sessions=True))


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e9),
            st.integers(2, LONGEST),
            st.integers(1, LONGEST),
            st.floats(0, 1, exclude_max=True),
        ),
        min_size=1,
        max_size=600,
    ),
    st.booleans(),
)
def test_what_is_written_is_read(tmp_path_factory: Any, rows: list[Any], packed: bool) -> None:
    times = sorted(row[0] for row in rows)
    wanted = [
        Request(time, prompt - int(prompt * share), int(prompt * share), output)
        for time, (_, prompt, output, share) in zip(times, rows)
    ]
    lines = [HEAD + ",cached_tokens"]
    lines += [f"{r.arrival_s!r},{r.isl},{r.output_tokens},{r.cached_tokens}" for r in wanted]
    path = tmp_path_factory.mktemp("round") / "trace.csv"
    data = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(data, 1) if packed else data)
    assert list(read_trace(path)) == wanted
    assert list(requests_of(wanted)) == wanted
    assert list(requests_of((r.arrival_s, r.isl, r.output_tokens, r.cached_tokens) for r in wanted)) == wanted


@given(st.lists(st.text('0123456789.,eE+-_ "\r\nx٣', max_size=14), max_size=5))
def test_nothing_but_requests_or_one_error_comes_out(tmp_path_factory: Any, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("any") / "trace.csv"
    path.write_text("\n".join([HEAD, *lines]), encoding="utf-8", newline="")
    last = 0.0
    try:
        for request in read_trace(path):
            assert last <= request.arrival_s <= 1e10 and request.isl >= 1 and request.output_tokens >= 1
            last = request.arrival_s
    except InputError as error:
        assert str(path) in str(error)


# --- public traces --------------------------------------------------------------------------------------


def test_azure_dates_and_rows_without_tokens(write: Any) -> None:
    azure = "TIMESTAMP,ContextTokens,GeneratedTokens"
    path = write(
        azure,
        "2023-11-16 23:59:59.6805900,374,44",
        "2023-11-17 00:00:03.9951690,396,109",
        "2023-11-17 00:00:04,7,0",
        "2023-11-17 00:00:05,0,3",
        "2023-11-17 00:00:05,9,3",
    )
    notes = Notes()
    # 3.995169 + 0.31941 after midnight; the rows without tokens are counted
    wanted = [(0.0, 374, 44), (4.314579, 396, 109), (5.31941, 9, 3)]
    got = [(r.arrival_s, r.isl, r.output_tokens) for r in read_trace(path, notes=notes)]
    assert got == [(pytest.approx(t, abs=1e-9), p, o) for t, p, o in wanted]
    assert notes.skipped == {"no prompt or no output token": 2}
    assert "2 rows skipped: no prompt or no output token" in trace_workload(path, Slo()).chosen
    zoned = write(azure, *(f"2024-05-10 00:00:0{i}.009930+00:00,2162,5" for i in range(3)))
    facts = check_trace(zoned)
    assert (facts.format, facts.span_s, facts.rate) == ("Azure LLM inference CSV", 2, 1)
    for bad in ("2024-05-10", "soon", "2024-13-10 00:00:00+00:00", "2024-05-10 00:00:00"):
        text = said(write(azure, "2024-05-10 00:00:00+00:00,5,1", f"{bad},5,1"))
        assert f"line 3: TIMESTAMP {bad!r} is not a date" in text
    late = said(write(azure, "2024-05-10 00:00:04,5,1", "2024-05-10 00:00:02,5,1"))
    assert "line 3: TIMESTAMP -2 comes after 0; sort" in late
    assert "all 1 rows are skipped" in said(write(azure, "2024-05-10 00:00:04,5,0"))
    assert "has no sessions" in said(zoned, Reading(sessions=True))


def test_burstgpt(write: Any) -> None:
    head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
    path = write(
        head, "5,ChatGPT,472,18,490,Conversation log", "45,ChatGPT,1087,0,1087,API log", "45,GPT-4,9,1,10,x"
    )
    assert list(read_trace(path)) == [Request(5, 472, 0, 18), Request(45, 9, 0, 1)]
    assert check_trace(path).unread == ("Model", "Total tokens", "Log Type")


def mooncake(time: float, prompt: int, output: int, *blocks: int, **more: Any) -> dict[str, Any]:
    return {"timestamp": time, "input_length": prompt, "output_length": output, "hash_ids": [*blocks], **more}


def test_mooncake_blocks_and_hits(write: Any) -> None:
    path = write(
        mooncake(0, 1000, 5, 1, 2), "", mooncake(277, 1024, 6, 1, 2), mooncake(300, 1500, 7, 1, 3, 2)
    )
    first, second, third = read_trace(path)
    assert first == Request(0, 1000, 0, 5, (1, 2), 512) and second.arrival_s == 0.277 and third.isl == 1500
    hits = [r.cached_tokens for r in read_trace(path, Reading(prefix="infinite"))]
    # the second repeats both blocks, all 1024 tokens but the last; the third only its first block
    assert hits == [0, 1023, 512]
    assert check_trace(path).has_blocks and check_trace(path).format == "Mooncake JSONL"
    wide = write(mooncake(0, 30, 1, 1, 2), mooncake(1, 30, 1, 1, 9))
    assert "line 1: 2 hash_ids, but 30 prompt tokens fill 1 blocks of 512 tokens" in said(wide)
    assert [r.cached_tokens for r in read_trace(wide, Reading(prefix="infinite", block_tokens=16))] == [0, 16]


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (mooncake(-1, 5, 1), "line 2: timestamp '-1' is not a time"),
        (mooncake(float("nan"), 5, 1), "line 2: timestamp 'nan'"),
        (mooncake(4, 5, 1), "line 2: timestamp 0.004 comes after 0.005; sort"),
        (mooncake(6, 5.5, 1), "line 2: input_length '5.5'"),
        (mooncake(6, True, 1), "line 2: input_length 'true'"),
        (mooncake(6, 5, 0), "line 2: output_length '0'"),
        (mooncake(6, 5, 1) | {"hash_ids": "x"}, "line 2: hash_ids is not a list of whole numbers"),
        (
            {"timestamp": 6, "input_length": 5, "output_len": 1},
            "missing 'output_length'; nearest present: 'output_len'",
        ),
        (
            {"timestamp": 6, "text_input": "Why?", "output_length": 1},
            "line 2: text_input has no number of tokens",
        ),
        ({"delay": 6, "input_length": 5, "output_length": 1}, "line 2: delay counts from the answer"),
        ("[1]", "line 2: expected a JSON object, not list"),
        ('{"timestamp": 6', "line 2: not JSON"),
        (mooncake(6, 5, 1, request_id="a"), "line 2: request_id 'a' stands in an earlier row too"),
    ],
)
def test_one_message_for_each_mistake_of_a_json_line(write: Any, second: Any, text: str) -> None:
    assert text in said(write(mooncake(5, 5, 1, request_id="a"), second))


def test_sessions_of_jsonl(write: Any) -> None:
    turns = [mooncake(i, 100 * (i + 1), 50, session_id="s") for i in range(2)]
    assert [r.cached_tokens for r in read_trace(write(*turns), Reading(sessions=True))] == [0, 150]
    assert "has no session_id" in said(write(mooncake(0, 5, 1)), Reading(sessions=True))
    delayed = write(mooncake(0, 5, 1, session_id="s"), {"delay": 9, "input_length": 7, "output_length": 1})
    assert "--concurrency" in said(delayed) and check_trace(delayed, Reading(timed=False)).rate is None


def test_bailian_counts_seconds_and_names_the_turn_before(write: Any) -> None:
    row = {"type": "text", "input_length": 521, "output_length": 132}
    path = write(
        {"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.114, **row, "turn": 1},
        {
            "chat_id": 160,
            "parent_chat_id": 159,
            "timestamp": 62.5,
            **row,
            "input_length": 676,
            "hash_ids": [7],
        },
    )
    first, second = read_trace(path, Reading(sessions=True))
    assert (first.arrival_s, second.arrival_s, second.cached_tokens) == (61.114, 62.5, 521 + 132)
    assert second.block_tokens == 16


def test_what_no_format_is(write: Any) -> None:
    assert "is empty" in said(write(""))
    assert "unknown kind" in said(write("{", '"a": 1', "}"))
    assert "line 1: not JSON" in said(write('{"timestamp": 1,'))
    assert "has no hashes of prompt blocks" in said(
        write({"timestamp": 1, "input_length": 5}), Reading(prefix="infinite")
    )
    assert "has no hashes" in said(write(HEAD, "0,5,1"), Reading(prefix="infinite"))
    with pytest.raises(InputError, match="did you mean 'infinite'"):
        Reading(prefix="infinit")
    with pytest.raises(InputError, match="ask for one"):
        Reading(prefix="infinite", sessions=True)


# --- logs -----------------------------------------------------------------------------------------------

LOG = "gpu,model,tp," + HEAD + ",queue_s,ttft_from_queued_s,tpot_s"


def test_a_log_of_several_runs_is_read_one_at_a_time(write: Any) -> None:
    path = write(LOG, "X,a,1,0,9,2,0.5,1.5,0.02", "X,a,1,1,8,2,,1.0,", "X,b,2,0,7,2,0,1,0")
    text = said(path)
    assert "line 4: model 'b' after 'a': the file holds several runs; select one by model" in text
    assert list(read_trace(path, Reading(select={"model": "b"}))) == [Request(0, 7, 0, 2)]
    first, second = read_log(path, {"model": "a"})
    assert first == LoggedRequest(Request(0, 9, 0, 2), ttft_from_queued_s=1.5, tpot_s=0.02, queue_s=0.5)
    assert second.tpot_s is None and second.queue_s is None and second.ttft_from_queued_s == 1
    with pytest.raises(InputError, match="ttft_from_queued_s 'x' is not a time"):
        list(read_log(write(LOG, "X,a,1,0,9,2,0.5,x,0.02")))
    with pytest.raises(InputError, match="has no measured column; expected any of queue_s, ttft_s"):
        list(read_log(write(HEAD, "0,5,1")))


VLLM: dict[str, Any] = {
    "request_throughput": 2.0,
    "input_lens": [10, 20, 30, 40],
    "output_lens": [3, 1, 5, 0],
    "ttfts": [0.5, 0.25, 0.125, 0.0],
    "itls": [[0.1, 0.3], [], [0.5, 0.5], []],
    "start_times": [1000.5, 1000.0, 1002.0, 1003.0],
    "errors": ["", "", "", "Connection reset"],
}


@pytest.mark.parametrize("indent", [None, 2])
def test_the_result_of_vllm_bench_serve(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(VLLM, indent=indent), encoding="utf-8")
    notes = Notes()
    logs = list(read_log(path, notes=notes))
    # by start: the second began first; TPOT = sum of gaps / (output - 1): 0.4 / 2, -, 1.0 / 4
    assert [log.request for log in logs] == [
        Request(0, 20, 0, 1),
        Request(0.5, 10, 0, 3),
        Request(2, 30, 0, 5),
    ]
    assert [log.ttft_s for log in logs] == [0.25, 0.5, 0.125]
    assert [log.e2e_s for log in logs] == pytest.approx([0.25, 0.9, 1.125])
    assert logs[0].tpot_s is None and [log.tpot_s for log in logs[1:]] == pytest.approx([0.2, 0.25])
    assert notes.skipped == {"failed or cancelled": 1}
    assert list(read_trace(path)) == [log.request for log in logs]


def test_what_a_vllm_result_may_lack(tmp_path: Path) -> None:
    path = tmp_path / "result.json"

    def write(result: dict[str, Any]) -> Path:
        path.write_text(json.dumps(result), encoding="utf-8")
        return path

    untimed = {key: value for key, value in VLLM.items() if key != "start_times"}
    text = said(write(untimed))
    assert "has no start_times" in text and "--rate" in text and "--concurrency" in text
    assert [r.isl for r in read_trace(path, Reading(timed=False))] == [10, 20, 30]
    assert len(list(read_log(path, timed=False))) == 3
    assert "save the result with --save-detailed" in said(write({"request_throughput": 1.0}))
    assert "ttfts has 1 entries, input_lens 4" in said(write(VLLM | {"ttfts": [1.0]}))
    assert "request 1: ttfts '-1' is not a time" in said(write(VLLM | {"ttfts": [-1.0, 1, 1, 1]}))
    assert "request 3: input_lens 'x'" in said(write(VLLM | {"input_lens": [1, 1, "x", 1]}))
    path.write_text(f"{json.dumps(VLLM)}\n{json.dumps(VLLM)}\n", encoding="utf-8")
    assert "holds 2 runs; select one, as in run=1" in said(path)
    assert [r.isl for r in read_trace(path, Reading(select={"run": "2"}))] == [20, 10, 30]
    assert "none is number '3'" in said(path, Reading(select={"run": "3"}))


def exported(start: int | None, isl: int, osl: int, ident: str, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"x_request_id": ident, "x_correlation_id": "s", "request_start_ns": start, **metadata},
        "metrics": {
            "input_sequence_length": {"value": isl, "unit": "tokens"},
            "output_sequence_length": {"value": osl, "unit": "tokens"},
            "time_to_first_token": {"value": 255.5, "unit": "ms"},
            "request_latency": {"value": 0.5, "unit": "sec"},
            "inter_token_latency": {"value": 5e6, "unit": "ns"},
        },
        "error": None,
    }


def test_the_export_of_aiperf(write: Any) -> None:
    start = 1759813207532900363
    failed = exported(start, 5, 1, "d") | {"metrics": {}, "error": {"code": 499}}
    lines = [exported(start + 250_000_000, 120, 8, "a", turn_index=1), exported(start, 100, 9, "b"), failed]
    path = write(*lines, exported(start, 5, 1, "e", benchmark_phase="warmup"))
    notes = Notes()
    first, second = read_log(path, notes=notes)
    assert first.request == Request(0, 100, 0, 9) and second.request == Request(0.25, 120, 0, 8)
    assert (first.ttft_s, first.e2e_s, first.tpot_s, first.queue_s) == (0.2555, 0.5, 0.005, None)
    assert notes.skipped == {"failed or cancelled": 1, "sent to warm up": 1}
    assert [r.cached_tokens for r in read_trace(path, Reading(sessions=True))] == [0, 109]
    assert "has no request_start_ns" in said(write(exported(None, 5, 1, "a")))
    assert "request_start_ns '1.5' is not a whole number of ns" in said(write(exported(1.5, 5, 1, "a")))  # type: ignore[arg-type]
    assert "x_request_id 'a' stands in an earlier row" in said(
        write(exported(1, 5, 1, "a"), exported(1, 5, 1, "a"))
    )
    assert "has no request that succeeded" in said(write(failed))
    with pytest.raises(InputError, match="is a trace"):
        list(read_log(write(mooncake(0, 5, 1))))


# --- Python objects, facts ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([], "there is no request"),
        ([(0, 5, 1), (float("nan"), 0, 1.5)], "request 2: arrival_s 'nan'"),
        ([(1, 5, 1), (0.5, 5, 1)], "request 2: arrival_s 0.5 comes after 1"),
        ([(0, 5, 1, 5)], "request 1: cached_tokens 5 leaves no uncached token of 5"),
        ([(0, 5, True)], "output_tokens 'True'"),
        ([Request(0, 0, 5, 1)], "leaves no uncached token"),
        ([Request(0, 5, 0, 1, (1, 2), 512)], "request 1: 2 blocks of 512 tokens, but 5 prompt tokens"),
        ([(0, 5)], "is no Request and no (arrival_s"),
        (["abc"], "is no Request"),
        ([7], "is no Request"),
    ],
)
def test_python_objects_are_checked_as_rows_are(rows: list[Any], text: str) -> None:
    with pytest.raises(InputError) as caught:
        list(requests_of(rows))
    assert text in str(caught.value)


def test_facts(write: Any) -> None:
    path = write(HEAD + ",cached_tokens,session_id,note", "1,10,2,4,a,x", "3,20,4,0,b,x", "5,30,6,0,,x")
    facts = check_trace(path)
    # two gaps of 2 s; prompts 60 / 3, cached 4 / 3, outputs 12 / 3
    assert (facts.requests, facts.span_s, facts.rate) == (3, 4, 0.5)
    means = (facts.mean_prompt_tokens, facts.mean_cached_tokens, facts.mean_output_tokens)
    assert means == pytest.approx((20, 4 / 3, 4))
    assert facts.has_sessions and not facts.has_blocks and facts.unread == ("note",)
    assert list(Trace(path)) == list(Trace(path)) and len(list(Trace(path))) == 3


@needs_shared
def test_hits_of_the_public_mooncake_trace() -> None:
    traces = SHARED / "traces"
    with (traces / "mooncake_synthetic.csv").open() as file:
        wanted = [
            (
                float(r["arrival_s"]),
                int(r["prompt_tokens"]),
                int(r["cached_prefix_tokens"]),
                int(r["output_tokens"]),
            )
            for r in csv.DictReader(file)
        ]
    hot = list(read_trace(traces / "mooncake_synthetic_raw.jsonl.gz", Reading(prefix="infinite")))
    assert len(hot) == 3993
    got = [(r.arrival_s, r.isl, r.cached_tokens, r.output_tokens) for r in hot]
    assert got == [(t, p, min(c, p - 1), o) for t, p, c, o in wanted]
    assert [r[:4] for r in hot] == [r[:4] for r in read_trace(traces / "mooncake_synthetic.csv")]


@needs_shared
def test_the_shared_log_of_vllm() -> None:
    path = SHARED / "measured" / "llmservingsim" / "e2e_vllm019_requests.csv"
    assert "line 302: model" in said(path)
    logs = list(read_log(path, {"model": "meta-llama/Llama-3.1-8B"}))
    assert len(logs) == 300
    assert logs[0] == LoggedRequest(
        Request(0.0, 2358, 0, 531),
        ttft_from_queued_s=0.16953,
        e2e_from_queued_s=15.7134,
        tpot_s=0.029328,
        queue_s=5e-05,
    )
