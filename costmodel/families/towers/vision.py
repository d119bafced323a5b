"""Parameters of vision towers, a function a kind: ViTs that differ in norms, gates, biases and positions.

Structure: transformers 5.24, modeling_<kind>.py. Where a published total of a model with such a tower is
known, the sum with its language model and projector equals it (tests/published_totals.csv,
tests/test_towers.py).
"""

from __future__ import annotations

from .fields import Fields


def linear(inputs: int, outputs: int, *, bias: bool = True) -> int:
    """Parameters of a projection."""
    return inputs * outputs + (outputs if bias else 0)


def vit_layer(hidden: int, inner: int) -> int:
    """A layer with biases everywhere and two LayerNorms."""
    return 4 * linear(hidden, hidden) + linear(hidden, inner) + linear(inner, hidden) + 4 * hidden


def patches(vision: Fields) -> int:
    """Number of patches of an image."""
    return (vision.whole("image_size") // vision.whole("patch_size")) ** 2


def siglip(vision: Fields) -> int:
    """SigLIP without its pooling head (also idefics3_vision, smolvlm_vision): learned positions, a last norm."""
    h, patch = vision.whole("hidden_size"), vision.whole("patch_size")
    embedding = linear(vision.whole_or(3, "num_channels") * patch**2, h) + patches(vision) * h
    layers = vision.whole("num_hidden_layers") * vit_layer(h, vision.whole("intermediate_size"))
    return embedding + layers + 2 * h


def siglip_head(vision: Fields) -> int:
    """Attention pooling that ``vision_use_head`` (default: true) adds; no engine builds it."""
    if not vision.flag_or(True, "vision_use_head"):
        return 0
    h, inner = vision.whole("hidden_size"), vision.whole("intermediate_size")
    return h + 4 * linear(h, h) + 2 * h + linear(h, inner) + linear(inner, h)


def clip(vision: Fields) -> int:
    """CLIP: a class token with a position, norms before and after the layers, no bias on patches."""
    h, patch = vision.whole("hidden_size"), vision.whole("patch_size")
    embedding = vision.whole_or(3, "num_channels") * patch**2 * h + (patches(vision) + 2) * h
    layers = vision.whole("num_hidden_layers") * vit_layer(h, vision.whole("intermediate_size"))
    return embedding + layers + 4 * h


def pixtral(vision: Fields) -> int:
    """Pixtral: gated, RMSNorm, rotary positions, no biases."""
    h, inner, patch = (
        vision.whole("hidden_size"),
        vision.whole("intermediate_size"),
        vision.whole("patch_size"),
    )
    layers = vision.whole("num_hidden_layers") * (4 * h * h + 3 * h * inner + 2 * h)
    return vision.whole_or(3, "num_channels") * patch**2 * h + h + layers


def llama4_vision(vision: Fields) -> int:
    """Llama 4: as CLIP, and the adapter behind the pixel shuffle. Its class defaults fit no checkpoint."""
    pooled, out = vision.whole("projector_input_dim"), vision.whole("projector_output_dim")
    return clip(vision) + vision.whole("intermediate_size") * pooled + out * out


def qwen2_vl(vision: Fields) -> int:
    """Qwen2-VL without its merger: patches of two frames, LayerNorm."""
    e = vision.whole("embed_dim")
    inner = e * vision.whole("mlp_ratio")
    return _video_patch(vision) * e + vision.whole("depth") * vit_layer(e, inner)


def qwen2_5_vl(vision: Fields) -> int:
    """Qwen2.5-VL without its merger: gated with biases, RMSNorm."""
    h, inner = vision.whole("hidden_size"), vision.whole("intermediate_size")
    mlp = 2 * linear(h, inner) + linear(inner, h)
    return _video_patch(vision) * h + vision.whole("depth") * (4 * linear(h, h) + mlp + 2 * h)


def qwen3_vl(vision: Fields) -> int:
    """Qwen3-VL and Qwen3.5 without mergers: learned positions, LayerNorm."""
    h = vision.whole("hidden_size")
    layers = vision.whole("depth") * vit_layer(h, vision.whole("intermediate_size"))
    return linear(_video_patch(vision), h) + vision.whole("num_position_embeddings") * h + layers


def _video_patch(vision: Fields) -> int:
    """Values of a patch over the frames that it spans."""
    channels = vision.whole_or(3, "in_channels", "in_chans")
    return channels * vision.whole("temporal_patch_size") * vision.whole("patch_size") ** 2


def moonvit(vision: Fields) -> int:
    """MoonViT of Kimi-VL and Kimi-K2.5: SigLIP with a grid of positions; those in time are no parameters."""
    h = vision.whole("hidden_size", "vt_hidden_size")
    inner = vision.whole("intermediate_size", "vt_intermediate_size")
    grid = vision.whole("init_pos_emb_height") * vision.whole("init_pos_emb_width")
    layers = vision.whole("num_hidden_layers", "vt_num_hidden_layers") * vit_layer(h, inner)
    return linear(3 * vision.whole("patch_size") ** 2, h) + grid * h + layers + 2 * h


def gemma4_vision(vision: Fields) -> int:
    """Gemma 4: gated, four RMSNorms a layer and two a head, positions for rows and for columns."""
    h, inner, dim = vision.whole("hidden_size"), vision.whole("intermediate_size"), vision.whole("head_dim")
    heads, kv_heads = vision.whole("num_attention_heads"), vision.whole("num_key_value_heads")
    layer = 2 * h * heads * dim + 2 * h * kv_heads * dim + 2 * dim + 3 * h * inner + 4 * h
    positions = 2 * vision.whole("position_embedding_size") * h
    return 3 * vision.whole("patch_size") ** 2 * h + positions + vision.whole("num_hidden_layers") * layer


def glm4v(vision: Fields) -> int:
    """GLM-4V without its merger: its layers are as wide as ``out_hidden_size`` inside, without biases."""
    h, out = vision.whole("hidden_size"), vision.whole("out_hidden_size")
    layers = vision.whole("depth") * (4 * h * h + 3 * h * out + 2 * h)
    return linear(_video_patch(vision), h) + patches(vision) * h + layers + 2 * h


def internvit(vision: Fields) -> int:
    """InternViT: a class token, layer scales, LayerNorm with biases or RMSNorm with norms on heads."""
    h, inner, patch = (
        vision.whole("hidden_size"),
        vision.whole("intermediate_size"),
        vision.whole("patch_size"),
    )
    qkv = linear(h, 3 * h, bias=False) + (3 * h if vision.flag_or(False, "qkv_bias", "attention_bias") else 0)
    norms = 2 * h if vision.data.get("norm_type") == "rms_norm" else 4 * h
    heads = 2 * h if vision.flag_or(False, "qk_normalization", "use_qk_norm") else 0
    layer = qkv + linear(h, h) + linear(h, inner) + linear(inner, h) + norms + 2 * h + heads
    embedding = h + (patches(vision) + 1) * h + linear(3 * patch**2, h)
    return embedding + vision.whole("num_hidden_layers") * layer
