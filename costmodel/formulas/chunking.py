"""What cutting a prompt into chunks costs: earlier KV read again, tiles and processors left unfilled."""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import ceil

READS = "derived, with the argument of DistServe, arXiv 2401.09670, section 2.3: "


@formula(
    unit="1",
    symbol="n",
    source="definition",
)
def chunk_count(isl: Any, chunk: Any) -> Any:
    """Number of chunks of a prompt; the last may be smaller.

    >>> chunk_count(isl=5000, chunk=2048)
    3.0
    """
    return ceil(isl / chunk)


@formula(
    unit="byte",
    symbol=r"Q_{re}",
    source=READS + "chunk i reads back the (i - 1) c tokens before it, summed over i = 1..n",
    assumes=("each chunk reads all earlier K and V from HBM once",),
)
def chunk_kv_reread(isl: Any, chunk: Any, kv_bytes_per_token: Any) -> Any:
    """Bytes of earlier KV that the chunks of one prompt read back: O(isl**2 / chunk).

    32,768 tokens in chunks of 2,048 read 2048 * 16 * 15 / 2 tokens again:

    >>> chunk_kv_reread(isl=32_768, chunk=2048, kv_bytes_per_token=1)
    245760.0
    """
    n = chunk_count(isl, chunk)
    return kv_bytes_per_token * chunk * n * (n - 1) / 2


@formula(
    unit="byte",
    symbol=r"Q_{kv}",
    source=READS + "chunk i reads min(i c, isl) tokens, summed over i = 1..n",
    assumes=("each chunk reads its own and all earlier K and V from HBM once",),
)
def chunk_kv_read(isl: Any, chunk: Any, kv_bytes_per_token: Any) -> Any:
    """Bytes of KV that the chunks of one prompt read, each chunk's own included.

    32,768 tokens in chunks of 2,048: the 245,760 tokens read again and the prompt itself once:

    >>> chunk_kv_read(isl=32_768, chunk=2048, kv_bytes_per_token=1)
    278528.0
    """
    return kv_bytes_per_token * isl + chunk_kv_reread(isl, chunk, kv_bytes_per_token)


@formula(
    unit="1",
    symbol=r"\phi_t",
    source="derived: a kernel computes whole tiles",
)
def tile_fill(rows: Any, tile_rows: Any) -> Any:
    """Rows computed over useful rows, at least 1.

    320 tokens in tiles of 128 rows cost 384:

    >>> tile_fill(rows=320, tile_rows=128)
    1.2
    """
    return ceil(rows / tile_rows) * tile_rows / rows


@formula(
    unit="1",
    symbol=r"\phi_{SM}",
    source="derived: tiles run in waves, one tile a processor, and the last wave takes as long as a full one",
    assumes=("tiles are equal", "a processor holds one tile at a time"),
)
def sm_fill(tiles: Any, sm_count: Any) -> Any:
    """Processor-waves occupied over tiles, at least 1.

    135 tiles on the 108 processors of an A100 take two waves, 216 / 135:

    >>> sm_fill(tiles=135, sm_count=108)
    1.6
    """
    return ceil(tiles / sm_count) * sm_count / tiles


@formula(
    unit="1/second",
    symbol=r"\lambda_{tok}",
    source="derived: every instance runs mixed steps back to back, one chunk each",
    assumes=("the mixed step stays within the TBT target at this chunk",),
)
def deflectable_tokens_per_s(instances: Any, chunk: Any, mixed_step: Any) -> Any:
    """Prompt tokens a second that the decode pool can take in beside its decodes.

    Two instances, 512 tokens every 64 ms:

    >>> deflectable_tokens_per_s(instances=2, chunk=512, mixed_step=0.064)
    16000.0
    """
    return instances * chunk / mixed_step
