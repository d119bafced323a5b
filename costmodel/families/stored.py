"""In which dtype a checkpoint stores its weights: the ``torch_dtype`` and ``quantization_config`` fields."""

from __future__ import annotations

from .config import Config, shown

STORED_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
KEPT_WIDE = ("lm_head", "embed_tokens", "gate", "shared_expert_gate")
LARGEST_BLOCK = 65_536


def weight_format(config: Config) -> tuple[str | None, tuple[int, int] | None]:
    """Return the stored dtype (None: not stated) and the block of an fp8 checkpoint."""
    known = tuple(STORED_DTYPES)
    fields = ("torch_dtype", "dtype")
    named = [value for value in (config.text(field, known) for field in fields) if value]
    config.check(len(set(named)) < 2, f"torch_dtype and dtype differ: {' and '.join(named)}", *fields)
    if not config.null("quantization_config"):
        return "fp8", _fp8_block(config)
    if not named:
        config.notes.append("torch_dtype absent: the dtype of the weights is not known")
        return None, None
    return STORED_DTYPES[named[0]], None


def _fp8_block(config: Config) -> tuple[int, int] | None:
    """Check a ``quantization_config`` and return its block; only fp8 in blocks is known."""
    quantised = config.data["quantization_config"]
    if not isinstance(quantised, dict):
        config.problems.append(f"quantization_config is {shown(quantised)}; expected an object")
        return None
    method = quantised.get("quant_method")
    if method != "fp8":
        said = "is missing" if method is None else f"is {shown(method)}"
        config.problems.append(
            f"quantization_config.quant_method {said}; only 'fp8' is modelled until a later version"
        )
        return None
    _refuse_wide_layers(config, quantised.get("modules_to_not_convert") or [])
    block = quantised.get("weight_block_size")
    if isinstance(block, list) and len(block) == 2 and all(_is_block_side(side) for side in block):
        return block[0], block[1]
    config.problems.append(
        f"quantization_config.weight_block_size is {shown(block)}; expected two whole numbers such as "
        "[128, 128]: fp8 without blocks is not modelled until a later version"
    )
    return None


def _is_block_side(side: object) -> bool:
    return type(side) is int and 0 < side <= LARGEST_BLOCK


def _refuse_wide_layers(config: Config, skipped: object) -> None:
    """Refuse a checkpoint that keeps matrices of some layers wide: its bytes are not those of fp8."""
    names = [str(name) for name in skipped] if isinstance(skipped, list) else [str(skipped)]
    narrow = [name for name in names if not _kept_wide(name)]
    config.check(
        not narrow,
        f"quantization_config.modules_to_not_convert names {shown(narrow[:1])}; a checkpoint that keeps "
        "matrices of its layers wide is not modelled until a later version",
    )


def _kept_wide(module: str) -> bool:
    """Return whether a module is never quantised here anyway: head, embedding, router, norms."""
    last = module.rsplit(".", 1)[-1]
    return last in KEPT_WIDE or last.endswith("norm")
