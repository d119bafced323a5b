"""The command line: every command in three formats, the contract's keys, and one message for each mistake."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click
import pytest
from cli_runner import asked, run

from costmodel.cli import COMMANDS, main
from costmodel.evaluate.timeline import ACCOUNTS
from costmodel.formulas import BOOK
from costmodel.formulas.chunking import chunk_kv_reread
from costmodel.inputs.workload import Slo
from costmodel.quantities import TERMS
from costmodel.questions.step import ask_step
from costmodel.report.render import FORMATS, to_json
from costmodel.report.strategies import GROUPS
from costmodel.workloads import load_workload, workload_names

LITE, A100, H100 = "deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb", "h100-sxm"
ABOUT = {"schema", "assumptions", "sources", "not_modelled", "warnings"}
PACKAGED = Path(__file__).parent.parent / "hardware"
EXAMPLE = Path(__file__).parent.parent / "examples" / "workload.toml"

QUESTIONS: dict[str, tuple[list[str], set[str]]] = {
    # what is asked, and keys of the contract in its answer
    "kv": (
        ["kv", LITE, "--tokens", "512"],
        {"kv_bytes_per_token", "kv_bytes_per_token_all_layers", "fixed_bytes_per_sequence", "kv_bytes",
         "kv_bytes_per_gpu"},
    ),
    "prefill": (
        ["step", LITE, "--hardware", A100, "--phase", "prefill", "--isl", "2048", "--chunk", "512"],
        {"time_s", "low_s", "high_s", "bound_s", "mfu", "mbu", "operators"},
    ),
    "decode": (
        ["step", "Llama-3.1-8B", "--hardware", H100, "--phase", "decode", "--batch", "8", "--context", "999"],
        {"time_s", "low_s", "high_s", "bound_s", "mfu", "mbu", "operators"},
    ),
    "mixed": (
        ["step", "Qwen3-8B", "--hardware", A100, "--phase", "mixed", "--chunk", "512", "--context", "999"],
        {"time_s", "decode_alone_s", "stall_s"},
    ),
    "transfer": (
        ["transfer", LITE, "--tokens", "512", "--link", "nvlink3"],
        {"payload_bytes", "wire_bytes", "descriptors", "wire_s", "bound_s", "exposed_s",
         "effective_bytes_per_s"},
    ),
    "models": (["show", "models"], {"kind", "entries"}),
    "model": (
        ["show", "models", LITE],
        {"total_parameters", "extras", "active_parameters", "weight_bytes", "notes"},
    ),
    "gpus": (["show", "hardware"], {"entries"}),
    "gpu": (["show", "hardware", "a100-pcie-40gb"], {"values", "absent", "efficiencies", "borrowed_from"}),
    "links": (["show", "links"], {"entries"}),
    "link": (["show", "links", "ib-hdr"], {"values", "absent"}),
    "connectors": (["show", "connectors"], {"entries"}),
    "connector": (["show", "connectors", "nixl"], {"values", "absent"}),
    "workloads": (["show", "workloads"], {"entries"}),
    "workload": (["show", "workloads", "hphd"], {"uncached_tokens", "output_tokens", "slo_ttft_s", "chosen"}),
    "formulas": (["show", "formulas"], {"entries"}),
    "formula": (["show", "formulas", "transfer_bound"], {"unit", "parameters"}),
    "explain": (["explain", "transfer_bound"], {"latex", "unit", "parameters", "description"}),
    "term": (["explain", "MBU"], {"name", "unit", "symbol", "meaning"}),
    "terms": (["explain", "--terms"], {"terms", "quantities"}),
}  # fmt: skip


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_answers_in_three_formats(name: str) -> None:
    arguments, keys = QUESTIONS[name]
    answer = asked(*arguments)
    assert keys | ABOUT <= answer.keys()
    assert answer["schema"] == f"costmodel.{arguments[0]}/1" and "about" not in answer
    plain, markdown = run(*arguments), run(*arguments, "-f", "markdown", "--detail")
    assert plain.exit_code == markdown.exit_code == 0 and plain.stderr == ""
    assert markdown.stdout.startswith("# ") and "|--" in markdown.stdout
    assert not plain.stdout.startswith("#") and "nan" not in plain.stdout


def test_formats_are_those_of_the_option() -> None:
    assert FORMATS == ("table", "markdown", "json")


def test_kv_of_v2_lite_and_mistral() -> None:
    lite = asked("kv", LITE, "--tokens", "512")
    # 27 layers x (512 + 64) x 2 bytes
    assert lite["kv_bytes_per_token"] == 27 * 576 * 2 == 31_104 and lite["kv_bytes"] == 512 * 31_104
    mistral = asked("kv", "Mistral-7B-v0.1", "--tokens", "8192")
    assert (mistral["kv_bytes_per_token"], mistral["kv_bytes_per_token_all_layers"]) == (0, 131_072)
    assert mistral["kv_bytes"] == mistral["fixed_bytes_per_sequence"] == 536_870_912


def test_kv_capacity_is_what_the_memory_leaves() -> None:
    answer = asked("kv", LITE, "--tokens", "1000", "--hardware", A100)
    capacity = answer["capacity"]
    # 15,706,484,224 parameters of 2 bytes, 16-bit copies of 27 kv_b_proj of 512 x 4,096, a rotary table of
    # 163,840 x 64; torch's allocator rounds by less than 1 %.
    tensors = 15_706_484_224 * 2 + 27 * 512 * 4096 * 2 + 163_840 * 64 * 2
    assert tensors <= capacity["weights_bytes"] < 1.01 * tensors
    left = 0.9 * 79.25 * 2**30 - sum(
        capacity[key] for key in ("weights_bytes", "activation_bytes", "non_torch_bytes")
    )
    assert capacity["kv_pool_bytes"] == pytest.approx(left)
    blocks = int(left / (16 * 31_104))
    assert (capacity["kv_cache_blocks"], capacity["kv_cache_tokens"]) == (blocks, 16 * blocks)
    assert capacity["max_concurrency"] == pytest.approx(blocks / 63)  # 1,000 tokens take 63 blocks of 16
    assert asked("kv", LITE, "--tokens", "1000")["capacity_reason"]


BOUNDS = [
    # published peaks: FLOPs over 312 and 989 TFLOP/s; V2-Lite at 512 tokens too, fewest distinct experts
    ("Llama-3.1-8B", A100, 8192, 422.9),
    ("Llama-3.1-8B", H100, 8192, 133.4),
    (LITE, A100, 512, 7.5),
    (LITE, A100, 2048, 31.3),
    (LITE, A100, 8192, 147.5),
    (LITE, A100, 32768, 946.6),
]


@pytest.mark.parametrize(("model", "gpu", "isl", "milliseconds"), BOUNDS)
def test_prefill_bounds(model: str, gpu: str, isl: int, milliseconds: float) -> None:
    answer = asked("step", model, "--hardware", gpu, "--phase", "prefill", "--isl", str(isl))
    assert answer["bound_s"] * 1e3 == pytest.approx(milliseconds, abs=0.05)
    assert answer["bound_s"] < answer["low_s"] < answer["time_s"] < answer["high_s"]
    assert sum(op["time_s"] for op in answer["operators"]) == pytest.approx(answer["time_s"])


def test_chunks_cost_time_and_read_again_what_the_formula_says() -> None:
    answer = ask_step("Llama-3.1-8B", A100, "prefill", isl=5000, chunk=(512, 2048, 5000))
    fine, coarse, whole = answer.chunked
    assert [cut.chunks for cut in answer.chunked] == [10, 3, 1]
    assert fine.ratio > coarse.ratio > whole.ratio == 1 and whole.reread_bytes == 0
    assert fine.reread_bytes == chunk_kv_reread(5000, 512, 131_072)
    # 2,048 and 4,096 tokens are read again
    assert coarse.reread_bytes == (2048 + 4096) * 131_072


def test_chunks_over_a_cached_prefix_read_it_once_each() -> None:
    (cut,) = ask_step("Llama-3.1-8B", A100, "prefill", isl=5000, cached=1000, chunk=(2000,)).chunked
    # the second chunk reads 1,000 cached tokens again and the 2,000 of the first
    assert cut.chunks == 2 and cut.reread_bytes == 3000 * 131_072


def test_windows_limit_what_chunks_read_again() -> None:
    (cut,) = ask_step("Mistral-7B-v0.1", A100, "prefill", isl=12_288, chunk=(6144,)).chunked
    assert cut.chunks == 2 and cut.reread_bytes == 4095 * 131_072


def test_a_mixed_step_stalls_its_decodes() -> None:
    alone = ask_step("Qwen3-8B", A100, "decode", batch=8, context=1000)
    mixed = ask_step("Qwen3-8B", A100, "mixed", batch=8, context=1000, chunk=(512,))
    assert mixed.decode_alone_s == pytest.approx(alone.time_s)
    assert mixed.time_s > alone.time_s and mixed.stall_s == pytest.approx(mixed.time_s - alone.time_s)
    last = ask_step("Qwen3-8B", A100, "mixed", batch=8, context=1000, chunk=(512,), isl=512)
    assert last.time_s >= mixed.time_s


def test_borrowed_efficiencies_are_a_warning() -> None:
    answer = asked("step", "Qwen3-8B", "--hardware", "a100-pcie-40gb", "--phase", "decode", "--context", "9")
    assert any("borrowed from a100-sxm-80gb" in warning for warning in answer["warnings"])


def test_step_says_which_efficiencies_it_used() -> None:
    mixed = ["step", "Qwen3-8B", "--hardware", A100, "--phase", "mixed", "--chunk", "512", "--context", "999"]
    answer = asked(*mixed)
    used = {fit["kind"]: fit for fit in answer["efficiencies"]}
    assert used.keys() == {op["kind"] for op in answer["operators"]}
    # products were measured on the A100: 7.0 % held out; mixed attention on an RTX 4090: 9.9 %, counted 2.8 times
    assert used["gemm"]["basis"] == "calibrated" and used["gemm"]["borrowed"] is None
    assert used["gemm"]["held_out_mape"] == used["gemm"]["error"] == pytest.approx(0.070, abs=5e-4)
    assert (used["attention_mixed"]["basis"], used["attention_mixed"]["borrowed"]) == ("borrowed", "rtx-4090")
    assert used["attention_mixed"]["held_out_mape"] == pytest.approx(0.099, abs=5e-4)
    assert used["attention_mixed"]["error"] == pytest.approx(2.8 * 0.099, abs=2e-3)
    assert (
        "attention_mixed: borrowed from rtx-4090, vllm-0.19.0; counted with an error of 28%"
        in answer["warnings"]
    )
    assert not any(warning.startswith("gemm:") for warning in answer["warnings"])
    shown = run(*mixed, "--detail").stdout
    assert "Efficiencies" in shown and "borrowed from" in shown and "attention_mixed" in shown
    # the norms come from another table of the same GPU
    assert (used["gemm"]["stack"], used["norm"]["stack"]) == ("vllm-0.14.0", "vidur")


def test_a_mixed_step_says_what_chunk_and_decodes_share() -> None:
    shared = "chunk and decodes share every operator"
    for model, said in (("Qwen3-8B", shared), (LITE, f"{shared} but attention")):
        answer = ask_step(model, A100, "mixed", context=999, chunk=(512,))
        assert said in answer.about.assumptions


def test_fills_of_chunks_are_those_of_the_kernels_tiles() -> None:
    def fills(model: str, gpu: str, *sizes: int) -> list[tuple[float, float]]:
        return [
            (cut.tile_fill, cut.sm_fill)
            for cut in ask_step(model, gpu, "prefill", isl=2000, chunk=sizes).chunked
        ]

    # A100: 32 heads x 8 tiles of 64 rows are 256 tiles, three waves of 108; 500 tokens take as many, of 4 x 128 rows
    assert fills("Llama-3.1-8B", A100, 512, 500) == [(1, 324 / 256), (512 / 500, 324 / 256)]
    # H100: 4 query heads of each of 8 KV heads lie together, 16 tiles of 128 rows: 128 tiles, one wave of 132
    assert fills("Llama-3.1-8B", H100, 512) == [(1, 132 / 128)]
    # latents: 16 heads x 8 tiles on an A100; the H100's form knows no tiles
    assert fills(LITE, A100, 512) == [(1, 216 / 128)] and fills(LITE, H100, 512) == [(1, 1)]


def test_bad_floats_become_null() -> None:
    answer = ask_step("Qwen3-8B", A100, "decode", context=9)
    object.__setattr__(answer, "time_s", float("nan"))
    assert json.loads(to_json(answer))["time_s"] is None


def test_the_book_is_a_page_with_every_formula() -> None:
    result = run("explain", "--all", "-f", "markdown")
    assert result.exit_code == 0
    assert all(f"### {name}\n" in result.stdout for name in BOOK)
    assert r"\frac{S}{\mathrm{BW}}" in result.stdout


@pytest.mark.parametrize(
    ("words", "name", "unit"),
    [
        (["ttft"], "TTFT", "second"),
        (["token", "budget"], "token budget", "token"),
        (["token-budget"], "token budget", "token"),
        (["slo_attainment"], "SLO attainment", "1"),
        (["chunk"], "chunk", "token"),  # the term, not the parameter of that name
        (["piggyback"], "piggyback", "1"),  # a parameter
    ],
)
def test_explain_knows_terms_and_parameters(words: list[str], name: str, unit: str) -> None:
    found = asked("explain", *words)
    assert (found["name"], found["unit"]) == (name, unit) and found["meaning"]
    assert found["meaning"] in run("explain", *words).stdout


def test_every_account_of_the_ledger_has_a_term_in_seconds() -> None:
    accounts = {
        key.removesuffix("_s").replace("_", " ")
        for key in (*ACCOUNTS, "ideal_s", *(key for _, key in GROUPS))
    }
    assert len(accounts) >= 14 and accounts | {"splitting"} <= TERMS.keys()
    assert {TERMS[account][0] for account in accounts | {"splitting"}} == {"second"}


def test_a_workload_is_shown_as_the_file_that_says_the_same(tmp_path: Path) -> None:
    for name in (*workload_names(), str(EXAMPLE)):
        text = run("show", "workloads", name).stdout
        lines = [line[4:] for line in text.splitlines() if line.startswith("    ")]
        copy = tmp_path / "copy.toml"
        copy.write_text("\n".join(lines))
        own = load_workload(copy)
        assert own == replace(load_workload(name), chosen=f"given by the user in {copy}")


def test_the_example_workload_is_complete() -> None:
    found = load_workload(EXAMPLE)
    assert (found.rate, found.cached_tokens, found.slo) == (4.0, 200, Slo(1.5, 0.04, 0.95))
    # the keys that are commented out are read as well
    assert {"on_share", "on_period"} <= set(re.findall(r"^# (\w+) = ", EXAMPLE.read_text(), re.MULTILINE))


MISTAKES: list[tuple[list[str], str]] = [
    (["kv", "deepseek-v3-lite", "--tokens", "5"], "did you mean 'DeepSeek-V2-Lite'"),
    (["kv", "deepseek-v3-lite", "--tokens", "5"], "pass the path of its config.json"),
    (["kv", "no.json", "--tokens", "5"], "there is no file 'no.json'"),
    (["kv", "truncated.json", "--tokens", "5"], "cut off"),
    (["kv", "nan.json", "--tokens", "5"], "hidden_size is nan"),
    (["kv", "missing.json", "--tokens", "5"], "num_hidden_layers is missing"),
    (["kv", ".", "--tokens", "5"], "is a folder"),
    (["kv", "Qwen3-8B", "--tokens", "-5"], "--tokens: '-5' is negative"),
    (["kv", "Qwen3-8B", "--tokens", "2k"], "write 2000 or 2048"),
    (["kv", "Qwen3-8B", "--tokens", "nan"], "not a finite number"),
    (["kv", "Qwen3-8B", "--tokens", "5", "--tp", "3"], "32 query heads"),
    (["kv", "Qwen3-8B", "--tokens", "5", "--kv-dtype", "bf17"], "did you mean 'bf16'"),
    (["kv", "Qwen3-8B", "--token", "5"], "'--tokens'"),
    (["kv", "Qwen3-8B"], "'--tokens'"),
    (["stp"], "did you mean 'step'"),
    (["show", "model"], "did you mean 'models'"),
    (["show", "links", "eth-20"], "did you mean 'eth-200'"),
    (["show", "formulas", "transfer_bund"], "did you mean 'transfer_bound'"),
    (["explain", "transfer_bund"], "did you mean 'transfer_bound'"),
    (["explain", "strandng"], "did you mean 'stranding'"),
    (["explain"], "name one formula or term"),
    (["explain", "TTFT", "--terms"], "name one formula or term"),
    (["transfer", "Qwen3-8B", "--tokens", "5", "--link", "zero.toml"], "'0 GB/s' is zero"),
    (["transfer", "Qwen3-8B", "--tokens", "5", "--link", "eth-200", "--control", "2,5s"], "decimal comma"),
    (["transfer", "Qwen3-8B", "--tokens", "5", "--link", "eth-200", "--control", "-1"], "negative"),
    (["transfer", "Qwen3-8B", "--tokens", "5", "--link", "eth-200", "--nics", "0"], "--nics"),
    (["transfer", "Qwen3-8B", "--tokens", "5", "--link", "eth-200", "--connector", "nixl"], "no latency"),
    (
        ["transfer", "Qwen3-8B", "--tokens", "5", "--link", "eth-200", "--overlap", "layerwise"],
        "--prefill-time",
    ),
    (["step", "Qwen3-8B", "--hardware", "bits.toml", "--phase", "prefill", "--isl", "5"], "Gb is gigabit"),
    (
        ["step", "Qwen3-8B", "--hardware", A100, "--phase", "prefill", "--isl", "1e9", "--chunk", "1"],
        "1,000,000,000 chunks",
    ),
    (["step", "Qwen3-8B", "--hardware", "v100", "--phase", "prefill", "--isl", "5"], "unknown GPU 'v100'"),
    (["step", "Qwen3-8B", "--hardware", A100, "--phase", "prefill"], "a prefill step needs --isl"),
    (
        ["step", "Qwen3-8B", "--hardware", A100, "--phase", "decode", "--context", "5", "--isl", "5"],
        "--isl means",
    ),
    (
        ["step", "Qwen3-8B", "--hardware", A100, "--phase", "prefill", "--isl", "5", "--cached", "5"],
        "nothing",
    ),
    (
        ["step", "Qwen3-8B", "--hardware", A100, "--phase", "decode", "--context", "5", "--batch", "0"],
        "--batch",
    ),
    (["step", "Qwen3-8B", "--hardware", A100, "--phase", "prefill", "--isl", "9", "--dtype", "fp8"], "FP8"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    sizes = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 8, "vocab_size": 9}
    (tmp_path / "missing.json").write_text(json.dumps(sizes | {"intermediate_size": 9}))
    (tmp_path / "nan.json").write_text(json.dumps(sizes | {"hidden_size": float("nan")}))
    (tmp_path / "truncated.json").write_text(json.dumps(sizes)[:-20])
    link = (PACKAGED / "links" / "eth-200.toml").read_text()
    (tmp_path / "zero.toml").write_text(link.replace('"25 GB/s"', '"0 GB/s"'))
    gpu = (PACKAGED / "gpus" / f"{A100}.toml").read_text()
    (tmp_path / "bits.toml").write_text(gpu.replace('"80 GiB"', '"80Gb"'))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_is_one_message_and_exit_code_2(folder: Path, arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith("error: ") and result.stderr.count("error: ") == 1
    assert message in result.stderr and "Traceback" not in result.stderr


def test_a_model_that_does_not_fit_says_how_many_bytes_are_missing() -> None:
    arguments = ["kv", "Llama-3.1-70B", "--tokens", "5", "--hardware", A100]
    # 70,553,706,496 x 2 bytes - 0.9 x 79.25 GiB, and what the engine keeps: a GiB or so.
    short = 70_553_706_496 * 2 - 0.9 * 79.25 * 2**30
    result = run(*arguments)
    missing = int(re.findall(r"\((\d+) bytes\)", result.stdout)[0])
    assert short < missing < short + 2 * 2**30
    assert result.exit_code == 1 and result.stderr == ""
    printed = run(*arguments, "-f", "json")
    answer = json.loads(printed.stdout)
    assert printed.exit_code == 1 and answer["capacity"] is None
    assert answer["schema"] == "costmodel.kv/1" and f"{missing} bytes" in answer["capacity_reason"]
    assert answer["does_not_fit"] == [answer["capacity_reason"]]
    # what does not depend on the GPU is answered all the same: 80 layers x 2 x 8 heads x 128 x 2 bytes
    assert answer["kv_bytes"] == 5 * 327_680


def test_of_each_engine_that_has_no_room_the_missing_bytes_are_said() -> None:
    answer = json.loads(
        run(
            "kv", "Llama-3.1-70B", "--tokens", "5", "--hardware", A100, "--engine", "all", "-f", "json"
        ).stdout
    )
    assert answer["capacity"] is None and len(answer["does_not_fit"]) == 3 and answer["engines"] == []
    for name, said in zip(("vLLM", "SGLang", "TensorRT-LLM"), answer["does_not_fit"]):
        weights = float(re.findall(r"([\d.]+) GiB of weights", said)[0])
        budget = float(re.findall(r"than the ([\d.]+) GiB", said)[0])
        kept = re.findall(r"and ([\d.]+) GiB that", said)
        short = float(re.findall(r"are ([\d.]+) GiB", said)[0])
        assert f"that {name} plans with" in said
        assert weights + (float(kept[0]) if kept else 0.0) - budget == pytest.approx(short, abs=0.02)


def test_interrupts_are_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("costmodel.questions.kv.ask_kv", interrupted)
    result = run("kv", LITE, "--tokens", "5")
    assert result.exit_code == 130 and result.output.strip() == ""


def test_help_lists_every_command_and_each_has_its_own() -> None:
    for arguments in ([], ["-h"], ["--help"]):
        result = run(*arguments)
        assert result.exit_code == 0 and all(f"  {name} " in result.stdout for name in COMMANDS)
    for name in COMMANDS:
        assert run(name, "-h").exit_code == 0
    assert run("--version").stdout.startswith("costmodel, version ")


def test_not_standalone_raises_what_the_library_raises() -> None:
    with pytest.raises(click.UsageError):
        main.main(["kv", LITE], prog_name="costmodel", standalone_mode=False)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0 and f"_COSTMODEL_COMPLETE={shell}_complete" in result.stdout


def in_a_process(arguments: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "costmodel", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, timeout=60)


def test_names_complete() -> None:
    words = {"COMP_WORDS": "costmodel show hardw", "COMP_CWORD": "1", "_COSTMODEL_COMPLETE": "bash_complete"}
    assert "show" in in_a_process([], **words | {"COMP_WORDS": "costmodel sho"}).stdout
    words = words | {"COMP_WORDS": "costmodel kv deepseek-ai/DeepSeek-V2-L", "COMP_CWORD": "2"}
    assert LITE in in_a_process([], **words).stdout


HEAVY = ("numpy", "sympy", "pint")


@pytest.mark.parametrize(
    "arguments", [["--help"], *(QUESTIONS[n][0] for n in ("kv", "prefill", "transfer", "gpu"))]
)
def test_nothing_heavy_is_imported(arguments: list[str]) -> None:
    command = [sys.executable, "-P", "-X", "importtime", "-m", "costmodel", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    imported = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in result.stderr.splitlines()}
    assert result.returncode == 0 and "click" in imported
    assert imported.isdisjoint(HEAVY)


def test_help_leaves_the_formula_book_closed() -> None:
    code = (
        "import sys, costmodel.cli as c\ntry: c.main(['--help'])\n"
        "finally: print([m for m in sys.modules if 'formula' in m])"
    )
    result = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60)
    assert result.stdout.splitlines()[-1] == "[]"


def test_a_reader_that_leaves_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-P", "-m", "costmodel", "show", "formulas"]
    result = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert result.stderr == ""
