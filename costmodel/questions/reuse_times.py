"""What computing a prefix takes: by step times of a GPU, by rates that were given, or not known."""

from __future__ import annotations

from dataclasses import dataclass

from ..decision.loading import Parabola, parabola_through
from ..errors import InputError
from ..formulas.reuse import mooncake_bandwidth
from ..inputs.model import Attention, Model
from ..serving.bound import step_bound
from ..serving.instance import InstanceKind
from ..serving.step import StepTimes, analyse_step
from ..serving.work import Chunk

UNKNOWN = "needs step times: pass --hardware, or --prefill-per-token"
NEEDS_GPU = "needs step times: pass --hardware"


@dataclass(frozen=True)
class Times:
    """Prefill times of an instance: of step times, or of the rates given; neither: nothing is known."""

    steps: StepTimes | None = None
    given: Parabola | None = None

    def __post_init__(self) -> None:
        if self.steps is not None and self.given is not None:
            raise InputError("--hardware and --prefill-per-token both say what computing takes: pass one")

    @property
    def known(self) -> bool:
        """Whether the recompute of a prefix is known."""
        return self.steps is not None or self.given is not None

    def recompute_s(self, prefix: int, uncached: int = 1) -> float:
        """Return what a cached prefix saves of a prefill. Raises InputError where nothing is known."""
        if self.steps is not None:
            return self.steps.prefill(prefix + uncached) - self.steps.prefill(uncached, prefix)
        if self.given is not None:
            return self.given.seconds(prefix)
        raise InputError(UNKNOWN)

    def parabola(self, prefix: int, uncached: int = 1) -> Parabola:
        """Return recompute as a parabola, through half of a prefix and the whole."""
        if self.given is not None:
            return self.given
        return parabola_through(lambda tokens: self.recompute_s(tokens, uncached), prefix)

    def prefill_s(self, tokens: int, prefix: int = 0) -> float | None:
        """Time of a prompt alone; None without step times."""
        return None if self.steps is None else self.steps.prefill(tokens, prefix)

    def bound_s(self, tokens: int, prefix: int = 0) -> float | None:
        """Time below which no prefill of so many tokens falls; None without a GPU."""
        if self.steps is None:
            return None
        return step_bound(self.steps.kind, (Chunk(tokens, prefix),), 1, 0, 0.0).time_s

    def band_s(self, tokens: int) -> tuple[float, float] | None:
        """Band of the prefill of a prompt alone, from the errors of its operators; None without step times."""
        if self.steps is None:
            return None
        step = analyse_step(self.steps.kind, (Chunk(tokens),))
        return step.low_s, step.high_s

    def decode_s(self, batch: int, context: float, osl: int) -> float | None:
        """Time of an instance that a request's decoding takes: its share of the steps of a batch."""
        return None if self.steps is None else osl * self.steps.decode(batch, batch * context) / batch


def mooncake_rule(model: Model, kind: InstanceKind | None, prefix: int) -> tuple[float | None, str | None]:
    """Return the bandwidth of Mooncake's rule, or why it does not apply."""
    if kind is None:
        return None, "needs the peak rate of a GPU: pass --hardware"
    groups, widths = set(), set()
    for mixer, _ in model.mixers:
        if not isinstance(mixer, Attention) or mixer.window is not None or not mixer.own_kv:
            return None, "the rule is of layers of attention without windows or latents"
        groups.add(mixer.heads / mixer.kv_heads)
        widths.add(mixer.heads * mixer.head_dim)
    if len(groups) > 1 or widths != {model.hidden}:
        return None, "the rule takes queries for as wide as the hidden size, and all layers for alike"
    peak = kind.tp * kind.product_peak
    return float(mooncake_bandwidth(prefix, model.hidden, groups.pop(), kind.kv_bytes_each, peak)), None
