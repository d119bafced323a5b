"""Writing a connector: TOML that :func:`costmodel.inputs.link.load_connector` reads back."""

from __future__ import annotations

from dataclasses import dataclass

from ..units import format_si
from .write import quoted

DIGITS = 4
#: Tokens of a KV block and how a prompt rounds up to blocks, where a table of copies does not say.
BLOCK_TOKENS, BLOCK_RULE = 16, "ceil"


@dataclass(frozen=True)
class CopyFit:
    """Latency and bandwidth of a series of copies, fitted to every second size, and its errors.

    ``bandwidth_share``: of ``peak_bytes_per_s``, the link's; both None where no peak is stated. Errors are fractions:
    the means of their sizes, and the largest of the sizes that the fit did not see.
    """

    series: str
    latency_s: float
    bandwidth_bytes_per_s: float
    peak_bytes_per_s: float | None
    bandwidth_share: float | None
    copies: int
    sizes: int
    smallest_bytes: float
    largest_bytes: float
    fitted_mape: float
    held_out_mape: float
    held_out_worst: float


def connector_toml(fit: CopyFit, share: float, name: str, source: str, date: str) -> str:
    """Return the text of a connector's file. ``share``: of the link's peak bandwidth, in (0, 1]."""
    peak = format_si(fit.peak_bytes_per_s or 0.0, "byte/second", DIGITS)
    span = f"{format_si(fit.smallest_bytes, 'byte')} to {format_si(fit.largest_bytes, 'byte')}"
    origin = (
        f"{source}: {fit.copies:,} copies of {fit.sizes} sizes, {span}; share of {peak}; every second size held out "
        f"(largest error {100 * fit.held_out_worst:.1f} %); fitted on {date}"
    )
    return "\n".join(
        (
            f"# block_tokens and block_rule are not measured: {BLOCK_TOKENS} and {BLOCK_RULE} are usual.",
            f"name = {quoted(name)}",
            f"title = {quoted('Copies of ' + fit.series)}",
            f"block_tokens = {BLOCK_TOKENS}",
            f"block_rule = {quoted(BLOCK_RULE)}",
            "",
            "[values]",
            f'latency = {{ value = {quoted(format_si(fit.latency_s, "second", DIGITS))}, source = "fit" }}',
            f'bandwidth_share = {{ value = "{min(share, 1.0):.{DIGITS}g}", source = "fit" }}',
            "",
            "[absent]",
            'per_descriptor = "not fitted: its cost is inside latency and bandwidth"',
            'control = "not in a table of copies"',
            "",
            "[error]",
            f"fitted_mape = {fit.fitted_mape:.{DIGITS}f}",
            f"held_out_mape = {fit.held_out_mape:.{DIGITS}f}",
            "",
            "[sources]",
            f"fit = {quoted(origin)}",
            "",
        )
    )
