"""The paper's engine: instances on an A100 as Sarathi-Serve and the vLLM of its time run them, and their step times."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from costmodel import Scenario
from costmodel.families import read_model
from costmodel.inputs.hardware import load_gpu
from costmodel.memory.parallelism import Parallelism
from costmodel.serving.deployment import Deployment, Settings
from costmodel.serving.instance import InstanceKind, make_instance
from costmodel.serving.table import StepTable

MISTRAL, YI, LLAMA = "mistralai/Mistral-7B-v0.1", "01-ai/Yi-34B", "meta-llama/Llama-2-70b-hf"
GPU = "a100-sxm-80gb"
#: Sequences at once: figure-5-6 of the artifact.
SEATS = 128


def apart(deployment: Deployment) -> Deployment:
    """The same deployment with a kernel call for the chunks' attention and another for the decodes'."""
    fits = deployment.prefill.efficiency.operators
    own = replace(
        deployment.prefill.efficiency,
        operators={name: fit for name, fit in fits.items() if name != "attention_mixed"},
    )
    kind = replace(deployment.prefill, efficiency=own)
    return replace(deployment, prefill=kind, decode=kind)


def instance(
    model: str,
    tp: int,
    budget: int = 512,
    gpu: str = GPU,
    stack: str | None = None,
    *,
    together: bool = False,
) -> Deployment:
    """One instance; ``together``: one attention call for chunks and decodes rather than the engine's two."""
    settings = Settings(token_budget=budget, max_seqs=SEATS)
    found = Scenario(model, gpu, topology="1", tp=tp, settings=settings, stack=stack).deployment()
    return found if together else apart(found)


@cache
def kind_of(model: str, tp: int, stack: str | None = None) -> InstanceKind:
    """The instance's kind."""
    return instance(model, tp, stack=stack).prefill


@cache
def times_of(model: str, tp: int) -> StepTable:
    """Its step times."""
    return StepTable(kind_of(model, tp))


def quarter_of_a40() -> StepTable:
    """Steps of LLaMA2-70B on one A40: four times those of two stages of TP4, were all-reduces free."""
    return StepTable(make_instance(read_model(LLAMA), load_gpu("a40"), Parallelism(tp=1)))
