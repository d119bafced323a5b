"""Options that commands share, and the wrapper that prints an answer. Nothing heavy is imported here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ..errors import DoesNotFitError, InputError, NoAnswerError, shorten
from ..units import Dimension, parse_option

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:  # click before 8.4 has no type argument
    ParamType = click.ParamType


class Quantity(ParamType):
    """A number with a unit of one dimension, in SI; tokens are whole numbers. Raises InputError.

    ``bare_below``: a number without a unit must be less, since more was surely meant in a smaller unit.
    ``signed``: it may be negative. ``most``: its upper limit, where that of the dimension is too high.
    """

    def __init__(
        self,
        dimension: Dimension,
        *,
        positive: bool = True,
        signed: bool = False,
        most: float | None = None,
        bare_below: float = math.inf,
    ) -> None:
        self.dimension = dimension
        self.positive = positive
        self.signed = signed
        self.most = most
        self.bare_below = bare_below
        self.name = {"token": "tokens", "1": "number", "second": "time"}.get(dimension, dimension)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value in SI."""
        if not isinstance(value, str):
            return value
        option = param.opts[0] if param else self.name
        found = parse_option(
            value, self.dimension, option, positive=self.positive, signed=self.signed, most=self.most
        )
        number = value.strip()
        if found >= self.bare_below and not number[-1].isalpha():
            raise InputError(
                f"{option}: bare numbers are seconds; write {number}ms, or {number}s if so meant"
            )
        return int(found) if self.dimension == "token" else found


class Whole(ParamType):
    """A whole number in plain digits, from ``least`` to ``most``. Raises InputError."""

    name = "integer"

    def __init__(self, most: int, *, least: int = 1) -> None:
        self.least = least
        self.most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        if not isinstance(value, str):
            return value
        digits = value.isascii() and value.isdecimal() and len(value) <= 20
        if not digits or not self.least <= int(value) <= self.most:
            option = param.opts[0] if param else self.name
            expected = f"a whole number from {self.least:,} to {self.most:,}, in digits alone"
            raise InputError(f"{option}: {shorten(value)!r} is not {expected}")
        return int(value)


class Known(ParamType):
    """A packaged name or a path, passed on as it is; ``names`` serves shell completion."""

    def __init__(self, name: str, names: Callable[[], Iterable[str]]) -> None:
        self.name = name
        self.names = names

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the packaged names that start with what is typed, then files."""
        found = [CompletionItem(name) for name in self.names() if name.startswith(incomplete)]
        return found or [CompletionItem(incomplete, type="file")]


def _models() -> Iterable[str]:
    from ..families import packaged_models

    return packaged_models()


def _families() -> Iterable[str]:
    from ..families import ADAPTERS

    return ADAPTERS


def _gpus() -> Iterable[str]:
    from ..inputs.hardware import gpu_names

    return gpu_names()


def _links() -> Iterable[str]:
    from ..inputs.link import link_names

    return link_names()


def _connectors() -> Iterable[str]:
    from ..inputs.link import connector_names

    return connector_names()


def _efficiencies() -> Iterable[str]:
    from ..inputs.efficiency import efficiency_names

    return efficiency_names()


def _stacks() -> Iterable[str]:
    from ..inputs.stack import stack_names

    return stack_names()


GPU = Known("NAME|FILE", _gpus)
LINK = Known("NAME|FILE", _links)
SECONDS = Quantity("second")
MOST_GPUS, MOST_REQUESTS, MOST_SEED = 4096, 10**7, 2**64 - 1


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """``click.option`` whose default, where there is one, is shown."""
    settings.setdefault("show_default", settings.get("default") is not None)
    return click.option(*names, **settings)


def model_argument() -> Callable[[F], F]:
    """MODEL: a packaged name or the path of a config.json, and --assume-family to insist on how it is read.

    With --assume-family the command receives the model itself, otherwise the text.
    """

    def read(ctx: click.Context, param: click.Parameter, family: str | None) -> None:
        if family is not None:
            from ..families import read_model

            ctx.params["model"] = read_model(ctx.params["model"], assume_family=family)

    def wrap(function: F) -> F:
        text = (
            "Read MODEL's configuration as this family's, whatever its model_type (costmodel show families)."
        )
        function = click.option(
            "--assume-family", expose_value=False, callback=read, type=Known("FAMILY", _families), help=text
        )(function)
        return click.argument("model", type=Known("MODEL", _models), is_eager=True)(function)

    return wrap


def hardware_option(
    *, required: bool = False, name: str = "--hardware", text: str = "GPU"
) -> Callable[[F], F]:
    """A GPU by name or file."""
    text += ": a packaged name (costmodel show hardware) or a TOML file."
    return option(name, type=GPU, required=required, help=text)


def efficiency_option() -> Callable[[F], F]:
    """Measured efficiencies by name or file."""
    text = "Efficiencies in place of the GPU's own: a name or a TOML file."
    return option("--efficiency", type=Known("NAME|FILE", _efficiencies), help=text)


def stack_option() -> Callable[[F], F]:
    """A software stack by name or file."""
    text = "What an engine adds to its operators: a packaged stack (costmodel show stacks) or a TOML file."
    return option("--stack", type=Known("NAME|FILE", _stacks), help=text)


def skew_option() -> Callable[[F], F]:
    """How unevenly experts are chosen."""
    text = "Standard deviation of how often experts are chosen, over the mean; 0: all alike."
    return option("--expert-skew", type=Quantity("1", positive=False, most=10), default="0", help=text)


def link_option(*, required: bool = False) -> Callable[[F], F]:
    """A link by name or file."""
    text = "Link: a packaged name (costmodel show links) or a TOML file."
    return option("--link", type=LINK, required=required, help=text)


def nics_option() -> Callable[[F], F]:
    """Ports of an instance."""
    text = "Ports, adapters or (NVLink, PCIe) GPUs of an instance that carry the copy."
    return option("--nics", type=Whole(MOST_GPUS), default=1, help=text)


def connector_option(default: str = "mooncake-vllm") -> Callable[[F], F]:
    """The software that copies."""
    text = "Software that copies: a packaged name (costmodel show connectors) or a TOML file."
    return option("--connector", type=Known("NAME|FILE", _connectors), default=default, help=text)


def overlap_option() -> Callable[[F], F]:
    """Serial or layer-wise copies."""
    text = "Copy after the prefill, or layer by layer beside it."
    return option("--overlap", type=click.Choice(("serial", "layerwise")), default="serial", help=text)


def tp_option(
    name: str = "--tp", default: int | None = 1, text: str = "Tensor-parallel GPUs."
) -> Callable[[F], F]:
    """A degree of tensor parallelism."""
    return option(name, type=Whole(MOST_GPUS), default=default, help=text)


def ep_option(
    default: int | None = 1, text: str = "GPUs of --tp that share out whole experts."
) -> Callable[[F], F]:
    """A degree of expert parallelism."""
    return option("--ep", type=Whole(MOST_GPUS), default=default, help=text)


def _spelled(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Read the names that engines and torch have for a dtype."""
    from ..dtypes import SPELLINGS

    return SPELLINGS.get(value, value) if value else value


def dtype_option() -> Callable[[F], F]:
    """The dtype of weights and products."""
    return option("--dtype", callback=_spelled, help="Dtype of the weights; default: the checkpoint's.")


def kv_dtype_option() -> Callable[[F], F]:
    """The dtype of the cache."""
    return option(
        "--kv-dtype", callback=_spelled, help="Dtype of the KV cache; default: that of the weights, or bf16."
    )


def tokens_option(name: str, text: str, **settings: Any) -> Callable[[F], F]:
    """A whole number of tokens."""
    zero = settings.pop("zero", False)
    return option(name, type=Quantity("token", positive=not zero), help=text, **settings)


def _explain_option(wanted: bool) -> Callable[[F], F]:
    """--explain, or nothing."""
    if wanted:
        return click.option(
            "--explain", is_flag=True, help="Print the formulas behind the answer, and sources."
        )
    return lambda function: function


def _refuse_empty(ctx: click.Context) -> None:
    """Refuse '' by the option's name: it would count as not given."""
    for param in ctx.command.params:
        if param.name and ctx.params.get(param.name) in ("", ("",)):
            name = param.opts[0] if param.param_type_name == "option" else (param.name or "").upper()
            raise InputError(f"{name}: empty; leave it out, or pass a value")


def answers(command: str, *, explain: bool = False) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Add --format and --detail (``explain``: and --explain) to a function that returns an answer; print it.

    A NoAnswerError goes on to the group (exit code 1), after its JSON object where JSON is asked for. An
    answer whose ``answered`` is False (nothing is stable, nothing fits) is printed and exits with 1, too.
    A model that does not fit ``kv`` answers; for any other command the GPU, TP or dtype passed is wrong, as
    any other bad option (exit code 2).
    """

    def wrap(ask: Callable[..., Any]) -> Callable[..., None]:
        @option(
            "-f",
            "--format",
            "form",
            type=click.Choice(("table", "markdown", "json")),
            default="table",
            help="How to print the answer.",
        )
        @click.option("--detail", is_flag=True, help="Print more columns and every source.")
        @_explain_option(explain)
        @wraps(ask)
        def run(form: str, detail: bool, explain: bool = False, **options: Any) -> None:
            from ..report.render import refusal, render

            _refuse_empty(click.get_current_context())
            try:
                answer = ask(**options)
            except NoAnswerError as error:
                if form == "json":
                    click.echo(refusal(f"costmodel.{command}/1", "no_answer", str(error)))
                if isinstance(error, DoesNotFitError):
                    raise InputError(str(error)) from None
                raise
            click.echo(render(answer, form, detail=detail, explain=explain))
            if not getattr(answer, "answered", True):
                raise click.exceptions.Exit(1)

        return run

    return wrap
