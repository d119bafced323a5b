"""Which packaged stack predicts a run, and which runs a stack was fitted to."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ..inputs.hardware import Gpu
from ..inputs.stack import ANY, Stack, packaged_stack, stack_names
from ..measured.points import NOT_STATED
from ..serving.band import same_layers
from .runs import END_TO_END, Whole

#: Engines that names of stacks call otherwise.
_WORDS = {"tensorrtllm": "trtllm", "trt": "trtllm"}


def software(text: str) -> tuple[str, str]:
    """Split the name of a software into engine and version, each "not stated" where it is not."""
    if text == NOT_STATED:
        return NOT_STATED, NOT_STATED
    engine, _, version = text.partition("-")
    return engine, version or NOT_STATED


def engine_word(engine: str) -> str:
    """Return an engine as names of stacks have it, whatever a log or a result calls it.

    >>> engine_word("vLLM"), engine_word("TensorRT-LLM"), engine_word("lmdeploy")
    ('vllm', 'trtllm', 'lmdeploy')
    """
    word = "".join(letter for letter in engine.lower() if letter.isalnum())
    return _WORDS.get(word, word)


@lru_cache(maxsize=1)
def known_stacks() -> tuple[Stack, ...]:
    """Return the packaged stacks, those with most fits first."""
    return tuple(sorted(map(packaged_stack, stack_names()), key=lambda stack: (-len(stack.fits), stack.name)))


def stack_for(text: str, gpu: Gpu, kind: str = END_TO_END) -> Stack | None:
    """Return the stack that predicts a software on a GPU, None where its engine has none.

    Its own version comes first, then others of the engine that were fitted on the GPU, then one for any GPU. Of
    tables that do not state their software, only steps have one: that of the steps that were measured without.
    """
    engine, version = software(text)
    if engine == NOT_STATED and kind == END_TO_END:
        return None
    named = [stack for stack in known_stacks() if stack.engine == engine]
    same = [stack for stack in named if stack.version == version]
    for where in (gpu.name, ANY):
        found = next((stack for stack in same if where in stack.fits), None)
        if found:
            return found
    other = next((stack for where in (gpu.name, ANY) for stack in named if where in stack.fits), None)
    return other and replace(
        other,
        name=f"{other.name} for {text}",
        fits={where: replace(fit, elsewhere=True) for where, fit in other.fits.items()},
    )


def saw(run: Whole, stack: Stack | None) -> bool:
    """Say whether a stack was fitted to the configuration of a run, on its GPU and at its version.

    Models of the same layers are one, whatever they are called.
    """
    if stack is None:
        return False
    fit = stack.fits.get(run.setting.gpu.name)
    if fit is None or (stack.engine, stack.version) != software(run.stack):
        return False
    model, layout = run.setting.model, run.setting.key.split()[1:]
    return any(
        key.split()[1:] == layout and (run.setting.key == key or same_layers(key.split()[0], model))
        for key in fit.fitted_on
    )
