"""``costmodel show``."""

from __future__ import annotations

import click

from .options import MOST_GPUS, Whole, answers, option

KINDS = (
    "models|hardware|engines|stacks|families|links|connectors|tiers|workloads|formulas|records|conditions|"
    "metrics"
)


@click.command("show")
@click.argument("kind", metavar=KINDS)
@click.argument("name", required=False)
@option("--tp", type=Whole(MOST_GPUS), help="Of a model: parameters per GPU under tensor parallelism.")
@option("--pp", type=Whole(MOST_GPUS), help="Of a model: pipeline stages.")
@option("--ep", type=Whole(MOST_GPUS), help="Of a model: GPUs of a stage that share out whole experts.")
@option(
    "--dp-attention", type=Whole(MOST_GPUS), help="Of a model: groups into which --tp splits for attention."
)
@option("--assume-family", help="Of a model: read its configuration as this family's.")
@answers("show")
def command(kind: str, name: str | None, assume_family: str | None, **degrees: int | None) -> object:
    """List what is known of a kind, or show NAME of it with every value and its source.

    NAME may be the path of a file of your own: this checks it.

    Example: costmodel show hardware a100-sxm-80gb
    """
    from ..questions.show import ask_show
    from ..questions.show_model import layout_of

    return ask_show(kind, name, layout=layout_of(degrees), assume_family=assume_family)
