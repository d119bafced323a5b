"""Steps of every packaged model, and verdicts for one of each new kind of layer."""

from __future__ import annotations

import math
from functools import lru_cache

import pytest

from costmodel.decision.results import Options
from costmodel.errors import CostmodelError, InputError
from costmodel.families import model_names, read_model
from costmodel.inputs.hardware import Gpu, load_gpu
from costmodel.memory.parallelism import Parallelism, allowed_tp
from costmodel.questions.recommend import ask_recommend
from costmodel.serving.instance import make_instance
from costmodel.serving.scenario import Scenario
from costmodel.serving.step import analyse_step
from costmodel.serving.work import Chunk
from costmodel.workloads import load_workload
