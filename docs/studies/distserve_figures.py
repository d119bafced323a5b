"""What DistServe (OSDI 2024, arXiv 2401.09670) and its repository published: step times, rates, logs."""

from __future__ import annotations

from functools import cache

from costmodel import Request, Slo

MODEL, GPU = "facebook/opt-13b", "a100-sxm-80gb"
#: OPT-13B on A100-80G SXM, by engine and TP, in ms: a b c of a prefill, a + b sum(tokens) + c sum(tokens^2), and of a
#: decode step, a + b sum(context) + c batch, below a batch of 95 and from it on. Fits, not measurements:
#: github.com/LLMServe/DistServe@82831f16 (Apache-2.0), simdistserve/estimators/profile_data/profiler-a100-80g.*.json.
FITS = """
distserve 1 18.10255 0.1019123 7.122264e-06 19.9347 0.0006269357 0.03850698 7.166189 0.0005798 0.158311
distserve 2 14.74297 0.06857721 2.449573e-06 13.2948 0.0003410922 0.06296393 10.63874 0.0003118337 0.08562914
distserve 4 12.0623 0.0380814 5.22625e-07 10.25623 0.000187867 0.03269274 10.48351 0.0001712089 0.04566649
vllm 1 22.0522 0.1405092 8.076585e-06 23.47504 0.0005929345 0.06072686 20.20636 0.0004907727 0.1200031
vllm 2 27.44081 0.09054533 8.452054e-06 24.54058 0.0002244015 0.08715787 17.94777 0.0004570851 0.1117908
vllm 4 30.53632 0.05150645 4.232473e-07 25.90114 7.753634e-05 0.05528087 23.88388 0.0002840016 0.06276524
"""
LARGE_BATCH = 95
#: KV tokens of an instance by TP: the same folder, max_num_tokens.csv.
KV_TOKENS = {1: 66_144, 2: 163_008, 4: 356_736}
#: DistServe, OSDI 2024 (arXiv 2401.09670), figure 1: requests/s a GPU.
FIGURE_1 = {"colocated": 1.6, "prefill only": 5.6, "decode only": 10.0, "2P1D": 3.3}
GAIN = 2.1
#: Objectives of figure 1, from a copy of the authors' blog (github.com/guevara/read-it-later, issue 11174).
TTFT, TPOT = Slo(ttft_s=0.4), Slo(tpot_s=0.04)
FIXED = ((512, 64),)
#: arrival (s):prompt/output tokens: the 100 ShareGPT requests that the authors sent to vLLM at 1 /s, of
#: LLMServe/DistServe@20a1633e (Apache-2.0), simdistserve/benchmarks/alignment/data-ground-truth/: vllm-100-1.exp.
SENT = """
0:55/4 1.381:829/170 2.393:697/431 3.258:1316/9 3.863:56/235 5.003:1730/216 5.635:1717/36 8.076:907/13
11.717:1420/4 12.248:415/210 13.97:67/21 14.797:1010/61 15.719:377/301 18.572:345/7 18.653:1699/126
18.753:1728/2 18.775:323/545 20.738:1043/247 22.393:1835/13 24.631:1478/162 28.854:1187/295 30.617:596/12
31.296:1589/8 32.961:1455/29 33.1:370/3 34.222:347/169 34.392:553/327 37.57:668/52 38.38:768/437
38.968:994/303 39.305:865/468 40.941:432/45 41.609:799/14 42.531:1665/46 42.553:1421/36 43.608:1238/227
44.647:1348/23 45.701:1608/10 48.862:849/34 50.118:1147/68 50.608:1336/171 51.239:1516/33 52.552:641/6
52.621:37/248 53.828:1357/32 55.047:760/188 55.306:1665/50 55.458:143/133 55.873:164/258 56.37:586/478
57.298:337/5 57.931:345/14 62.823:10/71 62.941:511/9 63.199:558/425 63.391:21/9 64.554:575/609
64.875:773/149 65.564:989/42 65.872:584/521 66.062:650/20 66.191:964/18 67.363:2003/26 67.527:1022/58
67.767:235/20 68.272:15/285 70.161:192/23 70.274:1208/786 72.273:165/16 72.382:125/36 76.499:852/247
77.194:1513/12 81.324:476/199 82.344:1170/523 83.82:397/21 83.864:519/34 84.229:1190/15 84.37:26/894
84.755:492/13 84.894:1451/255 85.314:495/4 85.906:1013/527 85.974:456/287 87.269:955/291 88.188:1347/481
88.526:875/6 89.34:891/293 89.448:1904/34 90.39:1487/2 93.299:1098/24 93.72:630/12 94.929:839/2
95.084:1512/279 96.467:566/177 96.843:279/266 97.065:733/445 98.035:1225/3 98.057:461/205 99.997:914/530
100.001:794/98
"""
#: Mean TTFT and TPOT in ms by requests/s, the same folder: vllm-100-1, distserve-c21d11-300-3 and -600-6.
LOGGED = {1: (161.2, 34.25), 3: (91.95, 38.35), 6: (114.4, 266.0)}
#: Example of simdistserve/README.md: TP of prefill and decode, requests/s a GPU at 0.2 s and 0.1 s on four GPUs.
PLACED, PLACED_RATE = (2, 1), 1.56


@cache
def sent() -> tuple[Request, ...]:
    """The logged requests."""
    split = (item.replace("/", ":").split(":") for item in SENT.split())
    return tuple(Request(float(at), int(prompt), 0, int(output)) for at, prompt, output in split)


@cache
def sharegpt() -> tuple[tuple[int, int], ...]:
    """Prompt and output tokens of the logged requests."""
    return tuple((request.uncached_tokens, request.output_tokens) for request in sent())
