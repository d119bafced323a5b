"""Waiting in queues: means under Poisson arrivals, and what they say about TTFT.

All are of a stable queue (utilisation below 1); of percentiles they give the exponential tail alone.
"""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import exp, maximum, minimum

POISSON = "Poisson arrivals, first come first served, utilisation below 1"
KHINCHINE = "Pollaczek-Khinchine formula; Kleinrock, Queueing Systems I, 1975, chapter 5"
ERLANG = "Erlang's delay formula; Kleinrock, Queueing Systems I, 1975, chapter 3"
KLB = "W. Kraemer and M. Langenbach-Belz, 8th International Teletraffic Congress, 1976; as in W. Whitt, QNA, 1983"
GENERAL = "independent gaps and services, first come first served, utilisation below 1; approximate"
DISTSERVE = "DistServe, arXiv 2401.09670, section 3.1, "
UNIFORM = "prompts of one length, no batching"


@formula(
    unit="second",
    symbol=r"\bar W",
    source=KHINCHINE,
    assumes=(POISSON, "one server, service times of known variance"),
)
def mg1_wait(rate: Any, service: Any, service_scv: Any) -> Any:
    """Mean wait of M/G/1.

    Half busy, exponential service of 1 s (squared variation 1) waits as long as it serves:

    >>> mg1_wait(rate=0.5, service=1, service_scv=1)
    1.0
    """
    return rate * service**2 * (1 + service_scv) / (2 * (1 - rate * service))


@formula(
    unit="second",
    symbol=r"\bar W",
    source=KHINCHINE,
    assumes=(POISSON, "one server, every service takes the same time"),
)
def md1_wait(rate: Any, service: Any) -> Any:
    """Mean wait of M/D/1: half that of exponential service.

    Half busy with services of 1 s, 0.5 / (2 * 0.5):

    >>> md1_wait(rate=0.5, service=1)
    0.5
    """
    return mg1_wait(rate, service, 0)


@formula(
    unit="1",
    symbol="C",
    source=ERLANG,
    assumes=(POISSON, "exponential service"),
    structural={"servers": 3},
)
def erlang_c(servers: int, utilisation: Any) -> Any:
    """Probability that an arrival finds all servers busy. ``servers`` is a whole number.

    Two servers half busy (one erlang): (1/2) / (1/2 + 1/2 * (1 + 1)):

    >>> f"{erlang_c(servers=2, utilisation=0.5):.4f}"
    '0.3333'
    """
    load = servers * utilisation
    term, below = 1, 0  # load**k / k!, and the sum of those before it
    for k in range(1, servers + 1):
        below = below + term
        term = term * load / k
    return term / (term + (1 - utilisation) * below)


@formula(
    unit="second",
    symbol=r"\bar W",
    source=ERLANG,
    assumes=(POISSON, "exponential service", "one queue for all servers"),
    structural={"servers": 3},
)
def mmc_wait(rate: Any, service: Any, servers: int) -> Any:
    """Mean wait of M/M/c.

    Two servers, one arrival and one erlang a second: (1/3) * 1 / (2 * 0.5):

    >>> f"{mmc_wait(rate=1, service=1, servers=2):.4f}"
    '0.3333'
    """
    utilisation = rate * service / servers
    return erlang_c(servers, utilisation) * service / (servers * (1 - utilisation))


@formula(
    unit="second",
    symbol=r"\bar W",
    source=KLB,
    assumes=(GENERAL, "one server"),
)
def klb_wait(rate: Any, service: Any, arrival_scv: Any, service_scv: Any) -> Any:
    """Approximate mean wait of GI/G/1; that of M/G/1 under Poisson arrivals (squared variation 1).

    Half busy, gaps of squared variation 3, services all of 1 s: 1.5 exp(-0.5 * 2 / 3):

    >>> f"{klb_wait(rate=0.5, service=1, arrival_scv=3, service_scv=0):.4f}"
    '1.0748'
    """
    busy = rate * service
    even, uneven = minimum(arrival_scv, 1), maximum(arrival_scv, 1)
    less = 2 * (1 - busy) / (3 * busy) * (1 - even) ** 2 / (arrival_scv + service_scv)
    more = (1 - busy) * (uneven - 1) / (uneven + 4 * service_scv)
    return busy * service / (1 - busy) * (arrival_scv + service_scv) / 2 * exp(-less - more)


@formula(
    unit="1",
    symbol=r"P_W",
    source=KLB,
    assumes=(GENERAL, "one server"),
)
def klb_waiting_probability(utilisation: Any, arrival_scv: Any, service_scv: Any) -> Any:
    """Approximate share of arrivals that wait in GI/G/1; the utilisation under Poisson arrivals.

    Half busy, gaps of squared variation 3, services all alike: 0.5 + 2 * 0.25 * 2 / (3 + 0.25 * 12):

    >>> f"{klb_waiting_probability(utilisation=0.5, arrival_scv=3, service_scv=0):.4f}"
    '0.6667'
    """
    busy, free = utilisation, utilisation * (1 - utilisation)
    even, uneven = minimum(arrival_scv, 1), maximum(arrival_scv, 1)
    less = (1 + even + busy * service_scv) / (
        1 + busy * (service_scv - 1) + busy**2 * (4 * even + service_scv)
    )
    more = 4 * busy / (uneven + busy**2 * (4 * uneven + service_scv))
    return busy + (even - 1) * free * less + (uneven - 1) * free * more


@formula(
    unit="second",
    symbol=r"\bar W",
    source="derived: klb_wait of one server as fast as all together, times erlang_c over the utilisation; under "
    "Poisson arrivals that of A. M. Lee and P. A. Longton, Operational Research Quarterly 10, 1959",
    assumes=(GENERAL, "one queue for all servers"),
    structural={"servers": 3},
)
def gigc_wait(rate: Any, service: Any, servers: int, arrival_scv: Any, service_scv: Any) -> Any:
    """Approximate mean wait of GI/G/c: of one server as fast as all, by how much rarer all are busy.

    M/M/c exactly. Two servers, one arrival and one erlang a second, services all of 1 s: half of 1/3:

    >>> f"{gigc_wait(rate=1, service=1, servers=2, arrival_scv=1, service_scv=0):.4f}"
    '0.1667'
    """
    busy = rate * service / servers
    rarer = erlang_c(servers, busy) / busy
    return rarer * klb_wait(rate, service / servers, arrival_scv, service_scv)


@formula(
    unit="1",
    symbol=r"P(W > t)",
    source="M/M/c exactly; an approximation elsewhere: Kleinrock, Queueing Systems II, 1976, chapter 2",
    assumes=("waits of those that wait are exponential",),
)
def exponential_tail(waited: Any, mean_wait: Any, waiting_probability: Any) -> Any:
    """Share of arrivals that wait longer than ``waited``, from the mean wait and the share that wait at all.

    Half of them wait, 2 s each, so 1 s on average; e**-1 of them more than 2 s:

    >>> f"{exponential_tail(waited=2, mean_wait=1, waiting_probability=0.5):.4f}"
    '0.1839'
    """
    return waiting_probability * exp(-waited * waiting_probability / mean_wait)


@formula(
    unit="second",
    symbol=r"\overline{\mathrm{TTFT}}",
    source=DISTSERVE + "equation 1",
    assumes=(POISSON, UNIFORM, "one prefill instance"),
)
def distserve_ttft(rate: Any, service: Any) -> Any:
    """Mean TTFT of one prefill instance.

    Half busy with prefills of 0.5 s: 0.5 + 0.25:

    >>> distserve_ttft(rate=1, service=0.5)
    0.75
    """
    return service + md1_wait(rate, service)


@formula(
    unit="second",
    symbol=r"\overline{\mathrm{TTFT}}_{pp}",
    source=DISTSERVE + "equation 2",
    assumes=(POISSON, UNIFORM, "two pipeline stages of half the service each"),
)
def distserve_ttft_inter_op(rate: Any, service: Any) -> Any:
    """Mean TTFT of one prefill instance of two pipeline stages: only the first stage queues.

    Prefills of 1 s, one a second: 1 + 1 / (4 * 1):

    >>> distserve_ttft_inter_op(rate=1, service=1)
    1.25
    """
    return service + md1_wait(rate, service / 2)


@formula(
    unit="second",
    symbol=r"\overline{\mathrm{TTFT}}_{tp}",
    source=DISTSERVE + "equation 3",
    assumes=(POISSON, UNIFORM, "tensor parallelism shortens the service by the speed-up"),
)
def distserve_ttft_intra_op(rate: Any, service: Any, speedup: Any) -> Any:
    """Mean TTFT of one prefill instance under tensor parallelism.

    Prefills of 1 s made 1.5 times faster, one a second: 1 / 1.5 + 1 / (3 * 0.5):

    >>> f"{distserve_ttft_intra_op(rate=1, service=1, speedup=1.5):.4f}"
    '1.3333'
    """
    return distserve_ttft(rate, service / speedup)


@formula(
    unit="1",
    symbol=r"\eta",
    source="derived: service over mean TTFT of M/D/1",
    assumes=(POISSON, UNIFORM),
)
def md1_execution_share(utilisation: Any) -> Any:
    """Share of mean TTFT that is execution, not waiting.

    At 0.9: 0.2 / 1.1, less than a fifth; the elasticity there is 9.18:

    >>> f"{md1_execution_share(utilisation=0.9):.1%}"
    '18.2%'
    """
    return 2 * (1 - utilisation) / (2 - utilisation)


@formula(
    unit="1",
    symbol=r"\epsilon",
    source="derived: d ln TTFT / d ln service of M/D/1 at a fixed rate",
    assumes=(POISSON, UNIFORM),
)
def md1_ttft_elasticity(utilisation: Any) -> Any:
    """Per cent by which mean TTFT falls when execution falls by one per cent.

    At 0.9: 1 + 0.9 / (0.1 * 1.1):

    >>> f"{md1_ttft_elasticity(utilisation=0.9):.2f}"
    '9.18'
    """
    return 1 + utilisation / ((1 - utilisation) * (2 - utilisation))


@formula(
    unit="1",
    symbol=r"\bar B",
    source="Little's law: each request spends osl - 1 steps among the decodes",
    assumes=("token 1 comes from the prefill", "the decode step does not depend on the result"),
)
def decode_occupancy(rate: Any, osl: Any, decode_step: Any) -> Any:
    """Mean number of running decodes.

    Two requests a second, 250 steps of 20 ms each:

    >>> decode_occupancy(rate=2, osl=251, decode_step=0.02)
    10.0
    """
    return rate * (osl - 1) * decode_step
