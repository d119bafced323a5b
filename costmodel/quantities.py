"""The one table of quantities: every formula parameter, its unit, its LaTeX and its meaning.

It is the glossary, too: ``TERMS`` defines the field's words that are results, not parameters.
Counts (tokens, heads, layers, requests) carry no dimension; byte, flop and second do.
"""

from __future__ import annotations

from typing import NamedTuple


class Quantity(NamedTuple):
    """Unit (in byte, flop, second), LaTeX symbol and meaning of one formula parameter."""

    unit: str
    latex: str
    meaning: str


_Q = Quantity

QUANTITIES: dict[str, Quantity] = {
    # shapes of the model
    "hidden": _Q("1", "h", "hidden size"),
    "heads": _Q("1", r"n_h", "query heads on the GPU"),
    "kv_heads": _Q("1", r"n_{kv}", "key/value heads on the GPU"),
    "head_dim": _Q("1", r"d", "width of a head"),
    "qk_dim": _Q("1", r"d_{qk}", "width of a query/key head"),
    "v_dim": _Q("1", r"d_v", "width of a value head"),
    "nope_dim": _Q("1", r"d_{nope}", "width of a query/key head without rotary position (MLA)"),
    "rope_dim": _Q("1", r"d_R", "width of the rotary part shared by all heads (MLA)"),
    "kv_rank": _Q("1", r"d_c", "rank of the compressed KV latent (MLA)"),
    "index_dim": _Q("1", r"d_I", "width of a key of the indexer of sparse attention (DSA)"),
    "state_elements": _Q("1", r"n_S", "elements of a recurrent layer's state of a sequence, on the GPU"),
    "conv_elements": _Q("1", r"n_C", "elements that a recurrent layer's convolution remembers of a sequence"),
    "layer_state_bytes": _Q("byte", r"S_S", "bytes of a sequence's state in one recurrent layer"),
    "state_dtype_bytes": _Q("byte", r"s_S", "bytes of an element of a recurrent state"),
    "state_macs": _Q("1", r"n_{mac}", "multiply-adds of a token with each element of a recurrent state"),
    "scan_chunk": _Q("1", r"c_S", "tokens that a recurrent layer's prefill kernel takes together"),
    "key_dim": _Q("1", r"d_k", "width of a key of a recurrent layer: rows of its state"),
    "value_dim": _Q("1", r"d_v", "width of a value of a recurrent layer: columns of its state"),
    "layers": _Q("1", "L", "number of layers"),
    "experts": _Q("1", "E", "routed experts of a layer on the GPU"),
    "top_k": _Q("1", "k", "experts that each token uses"),
    "width": _Q("1", "f", "intermediate width of a feed-forward block or expert on the GPU"),
    "matrices": _Q("1", r"n_m", "weight matrices of a feed-forward block (3 gated, 2 not)"),
    "tensors": _Q("1", r"n_x", "activation tensors that an element-wise operator reads and writes"),
    # shapes of the work
    "m": _Q("1", "m", "rows of a matrix product: tokens"),
    "n": _Q("1", "n", "columns of a matrix product: outputs"),
    "k": _Q("1", "k", "inner dimension of a matrix product"),
    "tokens": _Q("1", "N", "tokens"),
    "isl": _Q("1", r"\mathrm{ISL}", "prompt tokens"),
    "chunk": _Q("1", "c", "prefill tokens of a step"),
    "prefix": _Q("1", "P", "tokens already in the KV cache before this step"),
    "context": _Q("1", "K", "cached tokens read, summed over the sequences of a batch"),
    "batch": _Q("1", "B", "running decodes"),
    "window": _Q("1", "w_s", "sliding window of a layer, in tokens"),
    "block_tokens": _Q("1", "b", "tokens of a KV block"),
    "blocks": _Q("1", r"n_b", "KV blocks of a copy"),
    "regions": _Q("1", r"n_r", "separate memory regions of a block and layer"),
    "sequences": _Q("1", r"n_s", "prompts whose chunks share a kernel call"),
    "reach": _Q("1", r"w_r", "most tokens that a query sees on average, where a window cuts them"),
    "length": _Q("1", r"K_1", "cached tokens of one sequence"),
    "cache_writes": _Q(
        "1", r"\delta_w", "1 where a kernel call writes new keys and values to the cache, else 0"
    ),
    "packed": _Q(
        "1", r"\delta_p", "1 where the query heads of a KV head share tiles (FlashAttention 3), else 0"
    ),
    "repacking": _Q(
        "1", r"\delta_r", "1 where a decode kernel copies queries into rows (FlashAttention 2), else 0"
    ),
    "pairs": _Q("1", r"n_{qk}", "query-key pairs of an attention"),
    "distinct": _Q("1", r"E_d", "distinct experts that a step reads"),
    "rows": _Q("1", "r", "rows of a tile of a matrix product"),
    "tile_rows": _Q("1", r"r_t", "rows of a tile"),
    "tiles": _Q("1", r"n_t", "tiles of a kernel"),
    "ranks": _Q("1", r"R", "expert-parallel GPUs over which the experts of a layer are spread"),
    "skew": _Q("1", r"c_E", "coefficient of variation of the experts' loads; 0: all alike"),
    "sent": _Q("1", r"\kappa_s", "how often each GPU sends the bytes of a collective"),
    "sm_count": _Q("1", r"n_{SM}", "streaming multiprocessors of the GPU"),
    "tp": _Q("1", "T", "tensor-parallel GPUs of an instance"),
    # storage
    "weight_dtype_bytes": _Q("byte", r"s_w", "bytes of a weight"),
    "dtype_bytes": _Q("byte", r"s_a", "bytes of an activation element"),
    "kv_dtype_bytes": _Q("byte", r"s_{kv}", "bytes of a cached element"),
    "kv_bytes_per_token": _Q("byte", r"s", "KV bytes of a token"),
    "layer_kv_bytes_per_token": _Q("byte", r"s_\ell", "KV bytes of a token in one layer"),
    "kv_bytes": _Q("byte", r"S", "KV bytes"),
    "bytes_moved": _Q("byte", "Q", "bytes moved"),
    "l2_bytes": _Q("byte", r"M_{L2}", "L2 cache of the GPU"),
    "ramp_bytes": _Q(
        "byte", r"S_0", "size that, with a message's, gives by square root what it takes to get up to rate"
    ),
    "one_shot_bytes": _Q("byte", r"S_1", "bytes over all GPUs up to which everything is sent to everyone"),
    "token_bytes": _Q(
        "byte", r"s_m", "bytes a token that an MLA module moves besides products and attention"
    ),
    "replication": _Q("1", r"\kappa", "GPUs of an instance that hold the same KV byte, at least 1"),
    "free_bytes": _Q("byte", r"M", "memory left for KV"),
    "memory_bytes": _Q("byte", r"M_0", "memory of the GPU that the engine sees"),
    "memory_share": _Q("1", r"u", "share of memory that an engine plans with"),
    "loaded_bytes": _Q("byte", r"M_w", "bytes of a GPU that hold weights after loading"),
    "activation_bytes": _Q("byte", r"M_a", "peak of activations in the profiling run"),
    "non_torch_bytes": _Q("byte", r"M_n", "memory outside torch: context, communication buffers"),
    "graph_bytes": _Q("byte", r"M_g", "memory set aside for CUDA graphs"),
    "max_num_seqs": _Q("1", r"n_{seq}", "most sequences of a step"),
    "max_num_batched_tokens": _Q("1", r"n_{tok}", "most tokens of a step: the token budget"),
    "vocab": _Q("1", "V", "vocabulary"),
    "sampler_bytes": _Q("byte", r"s_V", "bytes for each sequence and entry of the vocabulary while sampling"),
    "token_hidden_bytes": _Q("byte", r"s_h", "bytes for each token and hidden element while sampling"),
    "layer_hidden_bytes": _Q("byte", r"s_{h\ell}", "bytes for each token and hidden element inside a layer"),
    "layer_width_bytes": _Q(
        "byte", r"s_{f\ell}", "bytes for each token and feed-forward element inside a layer"
    ),
    "fixed_bytes": _Q("byte", r"M_c", "what activations take whatever the batch"),
    "pool_bytes": _Q("byte", r"M_{KV}", "KV pool of a GPU"),
    "block_bytes": _Q("byte", r"S_b", "bytes of a block of all layers that share it"),
    # dimensioned constants
    "flop_per_mac": _Q("flop", r"2", "floating-point operations of a multiply-add"),
    "kv_tensors": _Q("1", r"2", "tensors cached by an attention head: K and V"),
    "fp8_bytes": _Q("byte", r"1", "bytes of an fp8 value"),
    "fp4_bytes": _Q("byte", r"\tfrac12", "bytes of a 4-bit value"),
    "wide_bytes": _Q("byte", r"2", "bytes of a 16-bit value"),
    "rope_bytes": _Q("byte", r"s_R", "bytes of a value of the cached rotary key"),
    "scale_bytes": _Q("byte", r"s_s", "bytes of a scale"),
    "scale_group": _Q("1", r"g", "values that share a scale"),
    # work and rates
    "flop": _Q("flop", "F", "floating-point operations"),
    "peak_flop_per_s": _Q("flop/second", r"\Pi", "peak rate of the GPU for the dtype"),
    "memory_bytes_per_s": _Q("byte/second", r"\beta", "peak HBM bandwidth"),
    "link_bytes_per_s": _Q("byte/second", r"\mathrm{BW}", "bandwidth of a copy, one direction"),
    "port_bytes_per_s": _Q("byte/second", r"\mathrm{BW}_p", "bandwidth of one port, one direction"),
    "ports": _Q("1", r"n_p", "ports that carry a copy"),
    "compute_share": _Q("1", r"e_c", "share of the peak rate that an operator reaches"),
    "bandwidth_share": _Q("1", r"e_b", "share of the peak bandwidth that an operator reaches"),
    "tile_overhead_tokens": _Q(
        "1", r"n_0", "cached tokens whose walk takes as long as a tile's start and end"
    ),
    "decode_overhead_tokens": _Q(
        "1", r"n_d", "cached tokens whose walk takes as long as the ends of a decode's tile"
    ),
    "empty_tile_tokens": _Q(
        "1", r"n_e", "cached tokens whose walk takes as long as an empty tile of a decode beside a long chunk"
    ),
    "tile_edge": _Q("1", r"h", "rows or columns whose loading costs as much as a tile's arithmetic on each"),
    "cached_share": _Q("1", r"e_{L2}", "rate of bytes found in L2, over the peak bandwidth of HBM"),
    "cached_part": _Q("1", r"\phi_{L2}", "part of L2 in which tensors stay"),
    "quantise_share": _Q("1", r"e_q", "share of the peak bandwidth that quantising an input reaches"),
    "arithmetic": _Q("second", r"t_F", "time of the arithmetic"),
    "streaming": _Q("second", r"t_Q", "time of the bytes"),
    # times
    "latency": _Q("second", r"t_0", "fixed latency"),
    "step_latency": _Q("second", r"t_1", "latency of each step of a collective"),
    "per_token": _Q("second", r"t_n", "time per new token of prefill attention, whatever the heads"),
    "pass_latency": _Q("second", r"t_p", "time of one more pass over the result of decode attention"),
    "block_time": _Q("second", r"t_b", "time of a thread block of decode attention"),
    "per_descriptor": _Q("second", r"t_d", "time per transfer descriptor"),
    "tier_bytes_per_s": _Q(
        "byte/second", r"\mathrm{BW}_t", "bandwidth of a KV tier to an instance, one direction"
    ),
    "tier_chunk": _Q("1", r"c_t", "tokens that a KV connector stores and reads as one piece"),
    "per_chunk": _Q("second", r"t_c", "time of a KV connector for each piece that it reads"),
    "held_sequences": _Q("1", r"n_k", "sequences whose KV is wanted at once"),
    "sequence_fixed_bytes": _Q(
        "byte", r"S_{fix}", "KV bytes of a sequence that do not grow with it: full windows and states"
    ),
    "prefill_growth": _Q("second", r"b", "prefill time of a prompt for each of its tokens, squared"),
    "kv_group": _Q("1", r"g_{kv}", "query heads that share a key/value head"),
    "compute_flop_per_s": _Q("flop/second", "G", "peak rate of all GPUs of an instance"),
    "attention_flop": _Q("flop", "a", "FLOPs of attention for each pair of tokens and hidden element"),
    "linear_flop": _Q("flop", "b", "FLOPs of products for each token and pair of hidden elements"),
    "both_ways_bytes_per_s": _Q(
        "byte/second",
        r"\mathrm{BW}_{2}",
        "bandwidth of a KV tier, both directions together while both are used",
    ),
    "recompute": _Q("second", r"t_{re}", "time to compute the KV of a prefix again"),
    "load_time": _Q("second", r"t_{load}", "time to read the KV of a prefix from a tier"),
    "request_time": _Q("second", "T", "time of an instance that a request takes where nothing is reused"),
    "hit_share": _Q("1", "h", "share of requests that find their prefix"),
    "set_tokens": _Q("1", r"n_w", "tokens of prompts that are asked for in turn"),
    "cache_tokens": _Q("1", r"n_c", "tokens that a cache has room for"),
    "turns": _Q("1", "k", "turns of a conversation"),
    "turn_tokens": _Q("1", "q", "new prompt tokens of a turn"),
    "descriptors": _Q("1", r"n_d", "transfer descriptors: separate regions of a copy"),
    "control": _Q("second", r"t_{ctl}", "control time of a hand-over"),
    "wire": _Q("second", r"t_w", "time of the copy on a free link"),
    "exposed": _Q("second", r"t_x", "part of the copy that nothing hides"),
    "kernels_s": _Q("second", r"t_k", "time of the kernels of a step, and of sampling"),
    "layer_latency": _Q("second", r"t_g", "time of a layer in which the GPU waits between kernels"),
    "layer_floor": _Q("second", r"t_L", "least time that the host needs for a layer"),
    "sequence_latency": _Q("second", r"t_s", "time in which the host samples a token of one sequence"),
    "sampled": _Q("1", r"n_t", "sequences of a step that get a token"),
    "request_latency": _Q(
        "second", r"t_e", "constant of an engine in TTFT: what a request takes before and after its steps"
    ),
    "message_bytes": _Q("byte", r"S_m", "bytes of the message of an all-reduce"),
    "large_message": _Q("byte", r"S_{max}", "largest message that takes an all-reduce's fast path whole"),
    "large_message_rate": _Q("byte/second", r"r_m", "rate of what a message has beyond that size"),
    "prefill_time": _Q("second", r"t_{pf}", "prefill time of a prompt alone"),
    "decode_step": _Q("second", r"t_{dec}", "decode step with the running batch"),
    "mixed_step": _Q("second", r"t_{mix}", "step of the running decodes and a chunk"),
    # threshold
    "uncached": _Q("1", "u", "uncached prompt tokens"),
    "prefill_fixed": _Q("second", r"a_0", "fixed part of a prefill alone"),
    "prefill_per_token": _Q("second", r"a", "prefill time of one more uncached token"),
    "piggyback": _Q("1", r"p", "share of the per-token prefill time that a mixed step hides"),
    "piggyback_fixed": _Q("1", r"p_0", "share of the fixed prefill time that a mixed step hides"),
    "decode_weight": _Q("1", r"w", "weight of a second of decode stall against a second of TTFT"),
    "wait": _Q("second", r"W", "wait at the prefill pool less the wait for a local prefill slot"),
    "queued_prefill": _Q("1", r"q", "requests delayed in the prefill pool per second of service added"),
    "queued_decode": _Q("1", r"q_d", "requests delayed in the decode pool per second of service added"),
    # waiting
    "rate": _Q("1/second", r"\lambda", "arrival rate of requests"),
    "service": _Q("second", r"D", "service time"),
    "service_scv": _Q("1", r"c_s^2", "squared coefficient of variation of service times"),
    "arrival_scv": _Q("1", r"c_a^2", "squared coefficient of variation of gaps between arrivals"),
    "utilisation": _Q("1", r"\rho", "share of its time that a server is busy"),
    "concurrency": _Q("1", "N", "clients of a closed loop"),
    "ttft": _Q("second", r"\mathrm{TTFT}", "arrival to the first token that the client sees"),
    "tpot": _Q("second", r"\mathrm{TPOT}", "mean gap between the output tokens of a request"),
    "cycle": _Q("second", r"C", "time of a request of a closed loop without waiting for other prompts"),
    "queue_wait": _Q("second", r"\bar W", "mean wait of a prompt for other prompts"),
    "servers": _Q("1", r"c", "servers of one queue"),
    "waited": _Q("second", "t", "time waited"),
    "mean_wait": _Q("second", r"\bar W", "mean wait, of all arrivals"),
    "waiting_probability": _Q("1", r"P_W", "share of arrivals that wait"),
    "speedup": _Q("1", r"K", "speed-up of tensor parallelism, 1 < K < tp"),
    "osl": _Q("1", r"\mathrm{OSL}", "output tokens"),
    "instances": _Q("1", r"n_i", "instances of a pool"),
}

TERMS: dict[str, tuple[str, str, str]] = {
    # term: (unit, symbol, definition)
    "TTFT": ("second", "TTFT", "arrival to the first token that the client sees"),
    "TPOT": ("second", "TPOT", "(E2E - TTFT) / (OSL - 1) of one request"),
    "ITL": ("second", "ITL", "one gap between output tokens; TBT is the same"),
    "TBT": ("second", "TBT", "one gap between output tokens; ITL is the same"),
    "E2E": ("second", "E2E", "arrival to the last token"),
    "ISL": ("token", "ISL", "prompt tokens, cached and uncached"),
    "OSL": ("token", "OSL", "output tokens"),
    "goodput": ("request/second", "", "highest arrival rate at which SLO attainment reaches its target"),
    "SLO attainment": ("1", "", "share of requests that meet every SLO"),
    "KV cache": ("byte", "S", "keys and values (or latents) kept for attention: a slope and a constant"),
    "kernel_factor": ("1", "", "time of every kernel in the steps of a stack, over that of the kernel alone"),
    "narrow_factor": ("1", "", "the same of 8-bit products besides: engines fuse what quantises their input"),
    "launch_share": (
        "1",
        "",
        "part of the fixed latencies of kernels that is left where they follow each other",
    ),
    "band": ("", "", "best / factor .. best x factor, made to hold four truths in five"),
    "KV pool": ("byte", r"M_{KV}", "memory of a GPU that an engine sets aside for the KV cache"),
    "KV block": (
        "token",
        "b",
        "tokens whose keys and values an engine stores together; a pool is cut into them",
    ),
    "peak activation": ("byte", "M_a", "most memory of activations in an engine's profiling run"),
    "MLA": ("", "", "multi-head latent attention: one latent and one rotary key a token stand for all heads"),
    "DSA": (
        "",
        "",
        "sparse attention over latents: an indexer picks the cached tokens that a token attends to",
    ),
    "TP, PP, EP": (
        "1",
        "",
        "GPUs that split each layer, that hold a run of layers each, that share out experts",
    ),
    "DP attention": ("1", "", "groups of GPUs with their own sequences and a full copy of attention each"),
    "operational intensity": ("flop/byte", "I", "FLOPs per byte moved; 0 for a copy"),
    "ridge point": ("flop/byte", "I^*", "intensity at which peak rate and peak bandwidth cost the same time"),
    "P:D ratio": ("1", "", "prefill instances to decode instances"),
    # where the time of a request goes: accounts, which add up to the delay, and their groups
    "ideal": ("second", "", "E2E of a request alone, unchunked, on the fastest kind of instance compared"),
    "delay": ("second", "", "E2E less ideal: the sum of all accounts, each signed and none clamped"),
    "queue": ("second", "", "arrival to the first prefill step, less admission and load"),
    "admission": (
        "second",
        "",
        "first in line but held back for memory, a sequence slot or a hand-over seat; and, once copied, until a "
        "decode step begins",
    ),
    "load": ("second", "", "reading a cached prefix from a tier outside GPU memory, where nothing hides it"),
    "stretch": (
        "second",
        "",
        "first to last prefill step less the same prefill alone: chunks, decodes and prompts beside it, slower GPUs",
    ),
    "link": ("second", "", "a finished prefill's wait for a link that is busy with other copies"),
    "handover": (
        "second",
        "",
        "control, what a copy exposes on a free link, and the last prompt token's step where it is run again",
    ),
    "stalls": (
        "second",
        "",
        "what others' prefills add to the decode steps of a request, or put between them",
    ),
    "gathering": ("second", "", "decode steps with the whole batch less the same steps alone"),
    "recompute": (
        "second",
        "",
        "from a preemption to where the request was before: its KV is computed again",
    ),
    "preemption": (
        "",
        "",
        "dropping the KV of the last request to enter, where decodes outgrow the pool; recomputed",
    ),
    "open loop": ("", "", "requests arrive at their own times, however long others take"),
    "closed loop": ("", "", "a number of clients, each sends a request as soon as its last one has ended"),
    "backlog": (
        "request",
        "",
        "requests that wait for prefill or for a place to decode; where it grows, no percentile has a meaning",
    ),
    "prefix cache": ("token", "", "leading blocks of earlier prompts that an instance still holds"),
    "lag": (
        "",
        "",
        "a step is planned while the one before it runs: an arrival misses one step of a busy engine",
    ),
    "copy": ("second", "", "link + handover + load"),
    "interference": (
        "second",
        "",
        "stretch + stalls, less prefixes computed again: what prefills and decodes cost each other in shared steps",
    ),
    "recomputed prefix": (
        "second",
        "",
        "the part of stretch that computes, alone, a prefix that the ideal has cached and the instance did not find",
    ),
    "stranding": ("second", "", "queue + admission: waiting for one pool, though another may be idle"),
    "sharing": ("second", "", "gathering: what decoding in a batch costs each of its requests"),
    "splitting": (
        "second",
        "",
        "stranding + stretch of a strategy less those of the better pooled one on the same GPUs, prefixes computed "
        "again left out; may be negative",
    ),
    "KV held": ("byte", "", "KV that waits for its hand-over, on both sides, on average"),
    # strategies and verdict
    "colocated": ("", "", "every instance does both, whole prompts before decodes"),
    "chunked": ("", "", "every instance does both, prompts in chunks that ride with decodes"),
    "disaggregated": ("", "", "prefill instances copy each prompt's KV to decode instances"),
    "deflected": ("", "", "disaggregated, but a rule keeps some prompts where they will decode"),
    "threshold": (
        "token",
        "u^*",
        "uncached tokens below which a prompt is better prefilled where it decodes",
    ),
    "selfish": ("token", "", "the threshold of one prompt's own time, its delay to others left out"),
    "system": ("token", "", "the threshold that counts the prompts delayed behind this one, too"),
    "margin": ("1", "", "how many times better the best strategy is than the next, at least 1"),
    "elasticity": ("1", "", "relative change of a result over relative change of an input"),
    "token budget": ("token", "", "all tokens of a step: decodes and prefill"),
    "chunk": ("token", "c", "prefill tokens of a step"),
    "busy share": ("1", "", "share of time that a pool runs steps"),
    "stack": (
        "",
        "",
        "the software that ran an operator or a step, and its version: vllm-0.24.0, nccl-2.27.3; --stack: what an "
        "engine adds to operators",
    ),
    "calibrated": (
        "",
        "",
        "of an operator's fit: its parameters were fitted to times measured on this very GPU",
    ),
    "borrowed": (
        "",
        "",
        "of an operator's fit: its parameters are those of another GPU, at this one's peaks",
    ),
    "held out": (
        "",
        "",
        "measured but not shown to the fit: shapes, models or sizes on which only the error is taken",
    ),
    "carried over": ("1", "", "error of a fit on another GPU's measurements"),
    "MFU": ("1", "", "useful FLOPs over peak FLOPs of the time"),
    "MBU": ("1", "", "useful bytes over peak bytes of the time"),
}
