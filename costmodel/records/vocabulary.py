"""The words of a record: conditions of a run and metrics measured of it, with the names that others give them."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..units import Dimension

Kind = Literal["text", "count", "number"] | Dimension


class Condition(NamedTuple):
    """What a condition is: a text, a count of at least 0, a number, or a quantity with its unit."""

    kind: Kind
    meaning: str
    aliases: tuple[str, ...] = ()


_C = Condition

CONDITIONS: dict[str, Condition] = {
    "model": _C("text", "model that ran", ("model_name", "model_id", "model_path")),
    "hardware": _C(
        "text", "GPUs, how many, how wired", ("gpu", "gpus_used", "device", "accelerator", "system")
    ),
    "prefill_hardware": _C("text", "GPUs of a prefill instance", ("prefill_gpu",)),
    "decode_hardware": _C("text", "GPUs of a decode instance", ("decode_gpu",)),
    "engine": _C("text", "serving engine", ("framework", "backend", "server", "software")),
    "engine_version": _C("text", "its version", ("version", "framework_version", "vllm", "vllm_version")),
    "engine_build": _C(
        "text", "commit, build or container digest", ("commit", "build", "image", "container")
    ),
    "engine_changes": _C("text", "what was changed in the engine", ("modified", "patches", "fork")),
    "engine_flags": _C("text", "options the engine was started with", ("flags", "args", "server_args")),
    "scenario": _C("text", "MLPerf scenario, or how requests were sent", ("mode",)),
    "workload": _C("text", "name of the workload or trace", ("dataset", "dataset_name", "trace")),
    "strategy": _C("text", "colocated, chunked, disaggregated, deflected", ("policy",)),
    "concurrency": _C(
        "count",
        "requests under way at a time",
        (
            "max_concurrency",
            "clients",
            "users",
            "conc",
            "streams",
            "max_request_concurrency",
            "maximum_request_concurrency",
        ),
    ),
    "batch": _C("count", "sequences of a step", ("batch_size", "bs")),
    "arrival_rate": _C(
        "1/second",
        "requests offered a second",
        ("rate", "request_rate", "qps", "rps", "rate_rps", "traffic_request_rate", "request_rate_configured"),
    ),
    "arrival_process": _C("text", "Poisson, closed loop, burst, trace", ("arrivals", "arrival", "load")),
    "burst": _C("count", "requests that arrive together", ("burst_size", "n_burst")),
    "requests": _C("count", "requests of the run", ("num_prompts", "prompts", "num_requests", "n")),
    "input_tokens": _C(
        "count",
        "prompt tokens of a request (ISL)",
        ("isl", "prompt_tokens", "input_len", "prompt", "random_input_len"),
    ),
    "output_tokens": _C(
        "count",
        "output tokens of a request (OSL)",
        ("osl", "output_len", "generated_tokens", "random_output_len"),
    ),
    "mean_input_tokens": _C(
        "number", "mean prompt tokens, where they vary", ("mean_isl", "avg_input_tokens", "avg_isl")
    ),
    "mean_output_tokens": _C(
        "number", "mean output tokens, where they vary", ("mean_osl", "avg_output_tokens", "avg_osl")
    ),
    "input_length": _C("text", "prompt lengths in words", ("prompt_length", "prompt_lengths")),
    "output_length": _C("text", "output lengths in words", ("output_lengths",)),
    "cached_tokens": _C("count", "prompt tokens found in a cache", ("cached", "cached_prefix_tokens")),
    "cached_share": _C("number", "share of prompt tokens found in a cache", ("hit_fraction", "hit_rate")),
    "cache_state": _C("text", "cold, warm, prefix cache off", ("cache", "prefix_cache", "prefix_caching")),
    "seed": _C("text", "seed of the prompts", ("random_seed",)),
    "warmup": _C("text", "what ran before the measurement", ("warm_up", "warmups", "warm_up_requests")),
    "slo": _C("text", "service-level objectives in words", ()),
    "slo_ttft": _C("second", "limit on TTFT", ("ttft_slo",)),
    "slo_tpot": _C("second", "limit on TPOT", ("tpot_slo", "slo_tbt", "tbt_slo", "slo_itl")),
    "topology": _C("text", "instances as xPyD, or their number", ("layout", "pd_ratio")),
    "gpus": _C("count", "GPUs in all", ("num_gpus", "gpu_count", "n_gpus")),
    "gpus_per_node": _C("count", "GPUs of a node", ()),
    "nodes": _C("count", "nodes in all", ("num_nodes",)),
    "instances": _C("count", "instances that serve", ("replicas", "engines", "dp")),
    "tp": _C(
        "count", "tensor-parallel GPUs of an instance", ("tensor_parallel", "tp_size", "tensor_parallel_size")
    ),
    "prefill_tp": _C("count", "the same of a prefill instance", ()),
    "decode_tp": _C("count", "the same of a decode instance", ()),
    "pp": _C("count", "pipeline stages of an instance", ("pp_size", "pipeline_parallel_size")),
    "ep": _C("count", "expert-parallel GPUs", ("ep_size",)),
    "link": _C("text", "what carries the KV copy", ("interconnect", "network", "fabric")),
    "link_bandwidth": _C("byte/second", "its bandwidth, one direction", ("interconnect_bandwidth",)),
    "nics": _C("count", "ports of an instance that carry the copy", ("ports", "rails")),
    "connector": _C("text", "software that copies", ("transfer_backend", "kv_connector")),
    "payload": _C("byte", "bytes of a copy", ("bytes", "size", "payload_bytes", "kv_size")),
    "descriptors": _C("count", "separate regions of a copy", ("n_desc", "num_descriptors", "n_descriptors")),
    "descriptor_bytes": _C(
        "byte", "bytes of one region of a copy", ("iov_size", "desc_bytes", "fragment_size")
    ),
    "block_size": _C(
        "count", "tokens of a KV block", ("page_size", "block_tokens", "block", "tokens_per_block")
    ),
    "first_token": _C("text", "side that sends token 1: prefill, decode, recompute", ("first_token_side",)),
    "ttft_from": _C(
        "text", "where TTFT starts: arrival or scheduling", ("ttft_starts_at", "ttft_definition")
    ),
    "tpot_definition": _C("text", "(E2E - TTFT) / (OSL - 1) of a request, or gaps", ("itl_definition",)),
    "throughput_counts": _C("text", "tokens counted: input, output or total", ("tokens_counted",)),
    "dtype": _C("text", "dtype of the weights", ("precision", "weight_dtype", "quantization")),
    "kv_dtype": _C("text", "dtype of the KV cache", ("kv_cache_dtype",)),
    "max_num_batched_tokens": _C("count", "token budget of a step", ("token_budget", "mnbt", "chunk")),
    "max_num_seqs": _C("count", "most sequences of a step", ("max_running", "max_running_requests")),
    "max_model_len": _C("count", "longest sequence served", ("context_len", "context_length")),
    "memory_utilization": _C("number", "share of memory the engine plans with", ("gpu_memory_utilization",)),
    "kv_bytes_per_token": _C("byte", "KV bytes of a token, all layers", ("bytes_per_token",)),
    "parameters": _C("number", "parameters of the model", ("params",)),
    "active_parameters": _C("number", "parameters a token multiplies", ("active_params",)),
    "peak_flops": _C("flop/second", "peak rate claimed for a GPU", ("peak_flop_per_s", "peak_tflops")),
    "memory_bandwidth": _C("byte/second", "HBM bandwidth claimed for a GPU", ("hbm_bandwidth",)),
    "memory": _C("byte", "memory claimed for a GPU", ("gpu_memory",)),
    "predicted_by": _C("text", "model or simulator that predicted the figure", ("simulator", "predictor")),
    "prompt_characters": _C("count", "characters of a prompt", ("chars", "characters")),
}

#: Texts that say that something is not stated.
UNSTATED = frozenset(
    [
        "?",
        "-",
        "--",
        "unknown",
        "unstated",
        "unspecified",
        "unreported",
        "undisclosed",
        "missing",
        "null",
        "n/a",
        "na",
        "tbd",
    ]
) | {
    "",
    "not stated",
    "not given",
    "not specified",
    "not reported",
    "not published",
    "not disclosed",
    "not known",
}


class Metric(NamedTuple):
    """Dimension (its SI unit is what values are kept in) and meaning of a metric."""

    dimension: str
    meaning: str
    aliases: tuple[str, ...] = ()


_M = Metric
TIME, RATE, TOKENS_PER_S, SHARE = "second", "1/second", "token/second", "1"

METRICS: dict[str, Metric] = {
    "ttft": _M(TIME, "arrival to the first token", ("time_to_first_token", "first_token_latency", "time_to_1st_token")),
    "tpot": _M(TIME, "mean gap between output tokens of a request", (
        "time_per_output_token", "token_latency", "time_per_output_token_excl_1st_token"
    )),
    "itl": _M(TIME, "one gap between output tokens", ("inter_token_latency", "tbt", "time_between_tokens")),
    "e2e": _M(TIME, "arrival to the last token", (
        "latency", "e2el", "e2e_latency", "request_latency", "end_to_end_latency", "e2e_request_latency"
    )),
    "prefill_time": _M(TIME, "prompt computed", (
        "prefill_execution", "prefill", "prompt_time", "prefill_exec", "recompute_time", "recompute"
    )),
    "decode_step_time": _M(TIME, "one decode step", ("decode_step", "token_time", "decode_time_per_step")),
    "mixed_step_time": _M(TIME, "one step of decodes and prefill tokens", ("mixed_step", "iteration_time")),
    "decode_time": _M(TIME, "first to last token", ("decode_execution", "decode")),
    "prefill_queue_time": _M(TIME, "wait for prefill", (
        "prefill_queue", "queue_time", "queue", "queueing_time", "waiting_time"
    )),
    "decode_queue_time": _M(TIME, "wait for decode after the copy", ("decode_queue",)),
    "kv_transfer_time": _M(TIME, "KV copied", (
        "kv_transfer", "transfer_time", "transfer", "copy_time", "transfer_window", "pull_time",
        "kv_transfer_latency", "transfer_latency"
    )),
    "handover_time": _M(TIME, "token 1 of prefill to token 1 at the client", ("handover", "hand_over")),
    "stall_time": _M(TIME, "a gap while a prompt is computed between two tokens of a decode", (
        "stall", "decode_stall", "prefill_stall", "generation_stall"
    )),
    "duration": _M(TIME, "whole run", ("makespan", "drain_time", "benchmark_duration", "elapsed")),
    "offered_rate": _M(RATE, "requests sent a second", ("request_rate_configured", "traffic_request_rate")),
    "request_throughput": _M(RATE, "requests finished a second", (
        "requests_per_s", "achieved_rate", "completed_rate", "req_throughput"
    )),
    "goodput": _M(RATE, "highest rate that meets the SLOs", ("request_goodput", "capacity")),
    "output_throughput": _M(TOKENS_PER_S, "output tokens a second", (
        "generation_throughput", "decode_throughput", "output_token_throughput", "throughput_output",
        "generated_throughput"
    )),
    "input_throughput": _M(TOKENS_PER_S, "prompt tokens a second", (
        "prompt_throughput", "prefill_throughput", "input_token_throughput", "throughput_input"
    )),
    "total_throughput": _M(TOKENS_PER_S, "prompt and output tokens a second", (
        "total_token_throughput", "throughput_total"
    )),
    "throughput": _M(TOKENS_PER_S, "tokens a second, of which kind is not said (throughput_counts says it)", (
        "token_throughput", "system_throughput"
    )),
    "peak_output_throughput": _M(TOKENS_PER_S, "output tokens of the best second", (
        "peak_output_token_throughput", "max_output_tokens_per_s"
    )),
    "user_throughput": _M(TOKENS_PER_S, "output tokens a second of one request", (
        "tok_s_user", "single_stream_throughput", "interactivity", "throughput_per_user"
    )),
    "kv_transfer_bandwidth": _M("byte/second", "bytes copied a second", (
        "transfer_bandwidth", "effective_bandwidth", "kv_transfer_rate", "transfer_bandwidth_write",
        "transfer_bandwidth_read", "copy_bandwidth", "kv_transfer_throughput", "transfer_throughput"
    )),
    "memory_bandwidth_achieved": _M("byte/second", "bytes read from HBM a second", ("achieved_bandwidth",)),
    "link_bandwidth_claimed": _M("byte/second", "bandwidth claimed for a link", (
        "nvlink_per_direction", "pcie_per_direction", "nvlink_bandwidth", "pcie_bandwidth", "link_peak"
    )),
    "peak_flops_claimed": _M("flop/second", "peak rate claimed for a GPU", ("peak_flops",)),
    "kv_bytes": _M("byte", "KV bytes of a prompt", ("kv_size",)),
    "kv_bytes_per_token": _M("byte", "KV bytes of a token", ()),
    "kv_block_bytes": _M("byte", "bytes of a KV block", ()),
    "kv_pool_bytes": _M("byte", "memory set aside for KV", ("available_kv_cache_memory", "kv_budget")),
    "weight_bytes": _M("byte", "bytes of weights", ("weights",)),
    "kv_cache_tokens": _M("token", "tokens that the KV pool holds", (
        "gpu_kv_cache_size", "max_total_num_tokens", "kv_tokens"
    )),
    "kv_cache_blocks": _M("token", "blocks that the KV pool holds", ("num_gpu_blocks", "gpu_blocks")),
    "full_length_sequences": _M(SHARE, "sequences of max_model_len that the KV pool holds", (
        "max_concurrency", "maximum_concurrency"
    )),
    "input_tokens": _M("token", "prompt tokens of a request", ()),
    "output_tokens": _M("token", "output tokens of a request", ()),
    "requests_in_flight": _M(SHARE, "mean requests under way", (
        "in_flight", "concurrency_measured", "mean_concurrency", "concurrency"
    )),
    "peak_requests_in_flight": _M(SHARE, "most requests under way", (
        "peak_concurrent_requests", "max_concurrent_requests"
    )),
    "requests_completed": _M(SHARE, "requests of the run that succeeded", (
        "successful_requests", "completed_requests", "completed"
    )),
    "requests_failed": _M(SHARE, "requests of the run that failed", ("failed_requests", "failed")),
    "total_input_tokens": _M("token", "prompt tokens of the run", ("total_input_text_tokens",)),
    "total_output_tokens": _M("token", "output tokens of the run", ("total_generated_tokens",)),
    "retokenized_output_tokens": _M("token", "the same, by splitting the texts again", (
        "total_generated_tokens_retokenized",
    )),
    "acceptance_length": _M(SHARE, "tokens that a speculative step gives", ("accept_length",)),
    "acceptance_rate": _M(SHARE, "share of draft tokens that are kept", ("accept_rate",)),
    "slo_attainment": _M(SHARE, "share of requests that meet the SLOs", ()),
    "cache_hit_rate": _M(SHARE, "share of prompt tokens found in a cache", (
        "prefix_cache_hit_rate", "hit_rate"
    )),
    "sm_utilization": _M(SHARE, "share of time that SMs work", (
        "sm_utilization_decode", "sm_utilization_prefill", "gpu_utilization"
    )),
    "posting_share": _M(SHARE, "share of a copy that posting its descriptors takes", (
        "post_share", "descriptor_posting_share"
    )),
    "prefill_time_ratio": _M(SHARE, "prefill time over that of another way", ("prefill_slowdown",)),
    "prediction_error": _M(SHARE, "predicted over measured, less 1", (
        "latency_error", "ttft_error", "tpot_error", "mape", "simulation_error"
    )),
    "ttft_ratio": _M(SHARE, "TTFT over that of another way"),
    "ttft_speedup": _M(SHARE, "TTFT of another way over this one's", ("ttft_improvement",)),
    "throughput_ratio": _M(SHARE, "throughput over that of another way", (
        "request_rate_ratio", "capacity_ratio"
    )),
    "ttft_reduction": _M(SHARE, "part of TTFT that is saved", ()),
    "slo_ttft": _M(TIME, "limit on TTFT", ("ttft_slo",)),
    "slo_tpot": _M(TIME, "limit on TPOT", ("tpot_slo", "slo_tbt", "slo_itl")),
    "offline_below_server_share": _M(SHARE, "systems whose MLPerf Offline figure is below Server, of those with both", (
        "mlperf_offline_minus_server_negative",
    )),
}  # fmt: skip
