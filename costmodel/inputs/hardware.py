"""GPUs: peak and measured figures of one board, each with its source, packaged or from a user's file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ..data import (
    HARDWARE,
    Reader,
    Sourced,
    is_path,
    load_toml,
    locate,
    not_above,
    resource_names,
    sourced_values,
    value_of,
    whole_count,
)
from ..errors import InputError, nearest, shorten, unknown
from ..units import Dimension

FOLDER = "gpus"
DTYPES = ("bf16", "fp16", "fp8", "fp4", "int8", "tf32", "fp32")

SCHEMA: dict[str, Dimension] = {
    **{f"peak_{dtype}": "flop/second" for dtype in DTYPES},
    "sustained_bf16": "flop/second",
    "memory": "byte",
    "memory_visible": "byte",
    "l2_cache": "byte",
    "memory_bandwidth": "byte/second",
    "nvlink_bandwidth": "byte/second",
    "pcie_bandwidth": "byte/second",
    "sm_count": "1",
    "tdp": "watt",
}
REQUIRED = ("memory",)
#: Links that the collectives of an instance may cross; the first unless a file says so.
TP_LINKS = ("nvlink_bandwidth", "pcie_bandwidth")
#: What step times need besides: required of a GPU that names an efficiency file.
FOR_STEP_TIMES = ("memory_bandwidth", "peak_bf16", "sm_count")


@dataclass(frozen=True)
class Gpu:
    """One board. ``values`` holds what is known (SI), ``absent`` why the rest is not; bandwidths are one way.

    ``efficiency`` names the file of measured efficiencies that stands for this board; None: no operator of it,
    or of one like it, was measured.
    """

    name: str
    title: str
    generation: str
    efficiency: str | None
    values: Mapping[str, Sourced] = field(hash=False)
    absent: Mapping[str, str] = field(hash=False)
    tp_link: str = TP_LINKS[0]

    @property
    def link_bytes_per_s(self) -> float:
        """Bandwidth one way of the link between the GPUs of an instance. Raises InputError where none is stated."""
        return self.get(self.tp_link)

    def get(self, key: str) -> float:
        """Return a value in SI. Raises InputError for an absent one (with the reason) or an unknown key."""
        if key not in SCHEMA:
            raise InputError(unknown("GPU value", key, SCHEMA))
        return value_of(self.name, self.values, self.absent, key)

    def peak_flop_per_s(self, dtype: str) -> float:
        """Return the dense peak rate for ``dtype``, in flop/second (operations for int8).

        Raises InputError for a dtype without a peak, with the reason and the dtypes that have one.
        """
        if dtype not in DTYPES:
            raise InputError(unknown("dtype", dtype, DTYPES))
        try:
            return self.get(f"peak_{dtype}")
        except InputError as error:
            known = ", ".join(d for d in DTYPES if f"peak_{d}" in self.values)
            raise InputError(f"{error}; it has peaks for {known}") from None

    @property
    def memory_bytes_per_s(self) -> float:
        """Peak bandwidth of the memory, in byte/second."""
        return self.get("memory_bandwidth")

    @property
    def l2_bytes(self) -> float:
        """L2 cache in bytes; where it is not stated, next to nothing stays in it."""
        return self.get("l2_cache") if "l2_cache" in self.values else 1.0

    @property
    def memory_kind(self) -> str:
        """What :attr:`memory_bytes` is: what engines see ("visible") or what the board holds ("nominal")."""
        return "visible" if "memory_visible" in self.values else "nominal"

    @property
    def memory_bytes(self) -> float:
        """Memory in bytes: visible where known, else nominal (engines see 1 to 8 % less)."""
        return self.get("memory_visible" if self.memory_kind == "visible" else "memory")

    @property
    def sm_count(self) -> int:
        """Number of streaming multiprocessors."""
        return int(self.get("sm_count"))


#: Names of boards in logs and tables, as :func:`_folded` leaves them, and how they are packaged.
ALIASES = {
    # as nvidia-smi and torch say
    "h100-80gb-hbm3": "h100-sxm", "h100-sxm5": "h100-sxm", "h100-sxm5-80gb": "h100-sxm",
    "h100-80gb-pcie": "h100-pcie", "h100-pcie-80gb": "h100-pcie", "h200-141gb": "h200-sxm",
    "h800-sxm5": "h800-sxm", "a100-sxm4": "a100-sxm-80gb", "a100-sxm4-80gb": "a100-sxm-80gb",
    "a100-sxm4-40gb": "a100-sxm-40gb", "a100-80gb-pcie": "a100-pcie-80gb", "a100-40gb-pcie": "a100-pcie-40gb",
    "a800-sxm4-80gb": "a800-sxm-80gb", "b300-sxm6-ac": "b300-sxm", "l40s-48gb": "l40s",
    "rtx-pro-6000-blackwell-server-edition": "rtx-pro-6000-blackwell", "mi300x-oam": "mi300x",
    "mi325x-oam": "mi325x", "mi355x-oam": "mi355x", "ascend910b": "ascend-910b",
    "tpu-v5-lite": "tpu-v5e", "tpu-v6-lite": "tpu-v6e", "tpu-v5": "tpu-v5p", "gaudi-2": "gaudi2", "gaudi-3": "gaudi3",
    # as engines' tables and their authors say
    "h100": "h100-sxm", "h100-80gb": "h100-sxm", "h100-dgx": "h100-sxm",
    "a100": "a100-sxm-80gb", "a100-80gb": "a100-sxm-80gb", "a100-sxm": "a100-sxm-80gb",
    "a100-dgx": "a100-sxm-80gb", "a100-40gb": "a100-sxm-40gb", "a100-pcie": "a100-pcie-80gb",
    "a100-pairwise-nvlink": "a100-pcie-80gb", "h200": "h200-sxm", "b200": "b200-sxm", "b300": "b300-sxm",
    "h20-sxm": "h20", "h800": "h800-sxm", "a800": "a800-sxm-80gb", "gb200-sxm": "gb200", "gb300-sxm": "gb300",
    "gb200-nvl72": "gb200", "gb300-nvl72": "gb300", "rtxpro6000": "rtx-pro-6000-blackwell",
    "rtx-pro-6000": "rtx-pro-6000-blackwell", "rtx-pro-6000-server": "rtx-pro-6000-blackwell",
    "rtx4090": "rtx-4090", "rtx5090": "rtx-5090",
}  # fmt: skip
_MAKERS = ("nvidia", "geforce", "tesla", "amd", "instinct", "intel", "habana", "huawei", "google", "aws")


def _folded(text: str) -> str:
    """A board's name in small letters with dashes, without who makes it."""
    words = re.split(r"[\s_()-]+", text.strip().lower())
    return "-".join(word for word in words if word and word not in _MAKERS)


def packaged_name(text: str) -> str | None:
    """Return under which name the GPU is packaged that a log or a table means; None where it is not."""
    name = _folded(text)
    known = ALIASES.get(name, name)
    return known if known in gpu_names() else None


def gpu_named(text: str) -> Gpu:
    """Return the packaged GPU that a log or a table means. Raises InputError where none is called so."""
    known = packaged_name(text)
    if known is None:
        names = (*gpu_names(), *ALIASES)
        match = nearest(_folded(text), names)
        hint = f"; did you mean {match!r}?" if match else ""
        raise InputError(f"unknown GPU {shorten(text)!r}{hint}")
    return load_gpu(known)


@lru_cache(maxsize=1)
def gpu_names() -> tuple[str, ...]:
    """Return the names of the packaged GPUs."""
    return resource_names(HARDWARE, FOLDER)


def load_gpu(name_or_path: str | Path) -> Gpu:
    """Return a packaged GPU, or that of a TOML file. Raises InputError with all problems of the file."""
    source = locate(name_or_path, HARDWARE, FOLDER, "GPU")
    reader = Reader(load_toml(source), str(source))
    reader.keys(("name", "title", "generation", "values", "sources"), ("efficiency", "absent", "tp_link"))
    measured = "efficiency" in reader.table
    values, absent = sourced_values(reader, SCHEMA, (*REQUIRED, *(FOR_STEP_TIMES if measured else ())))
    whole_count(reader, values, "sm_count")
    not_above(reader, values, "memory_visible", "memory", "GPU memory is sold in binary units, so write GiB")
    not_above(reader, values, "sustained_bf16", "peak_bf16", "sustained cannot exceed peak")
    gpu = Gpu(
        name=reader.text("name"),
        title=reader.text("title"),
        generation=reader.text("generation"),
        efficiency=_beside(reader.text("efficiency"), name_or_path) if measured else None,
        values=values,
        absent=absent,
        tp_link=reader.choice("tp_link", TP_LINKS) if "tp_link" in reader.table else TP_LINKS[0],
    )
    reader.close()
    return gpu


def _beside(efficiency: str, name_or_path: str | Path) -> str:
    """Resolve the path of an efficiency file against the folder of the GPU file that names it."""
    if not is_path(efficiency):
        return efficiency
    return str(Path(name_or_path).parent / efficiency)
