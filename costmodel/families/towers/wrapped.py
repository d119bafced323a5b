"""What each wrapper puts beside its language model: its tower and the projector to its hidden size."""

from __future__ import annotations

from collections.abc import Callable

from ..config import shown
from . import audio, vision
from .fields import Counts, Fields, UnknownKind
from .vision import linear

Counter = Callable[[Fields, int], Counts]

#: Sizes that stand for a name of timm's, as configurations of DeepSeek-VL2 give it.
NAMED: dict[str, dict[str, object]] = {
    "siglip_so400m_patch14_384": {
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "patch_size": 14,
        "image_size": 384,
    }
}


def gemma3(outer: Fields, text: int) -> Counts:
    """SigLIP, a norm and one matrix."""
    own = outer.inside("vision_config")
    h = own.whole("hidden_size")
    return _siglip(own) | {"projector": h + h * text}


def paligemma(outer: Fields, text: int) -> Counts:
    """SigLIP without a head (the class switches it off) and one projection."""
    own = outer.inside("vision_config")
    projector = linear(own.whole("hidden_size"), text)
    return {"vision_tower": vision.siglip(own), "projector": projector}


def idefics3(outer: Fields, text: int) -> Counts:
    """SigLIP without a head; ``scale_factor``^2 patches make a token."""
    own = outer.inside("vision_config")
    projector = own.whole("hidden_size") * outer.whole("scale_factor") ** 2 * text
    return {"vision_tower": vision.siglip(own), "projector": projector}


def llava(outer: Fields, text: int) -> Counts:
    """CLIP, SigLIP or Pixtral by model_type; two projections from the features of one layer or several."""
    own = outer.inside("vision_config")
    layers = outer.data.get("vision_feature_layer")
    inputs = own.whole("hidden_size") * (len(layers) if isinstance(layers, list) else 1)
    bias = outer.flag_or(True, "multimodal_projector_bias")
    return _by_type(own) | {"projector": linear(inputs, text, bias=bias) + linear(text, text, bias=bias)}


def llava_next(outer: Fields, text: int) -> Counts:
    """As LLaVA, and an embedding that ends a row of an image."""
    counts = llava(outer, text)
    return counts | {"projector": counts["projector"] + text}


def llama4(outer: Fields, text: int) -> Counts:
    """The tower with its adapter, and one matrix."""
    own = outer.inside("vision_config")
    return {
        "vision_tower": vision.llama4_vision(own),
        "projector": own.whole("vision_output_dim") * text,
    }


def mistral3(outer: Fields, text: int) -> Counts:
    """Pixtral; a norm, a merger of ``spatial_merge_size``^2 patches and two projections."""
    own = outer.inside("vision_config")
    h, merged = own.whole("hidden_size"), outer.whole("spatial_merge_size") ** 2
    bias = outer.flag_or(False, "multimodal_projector_bias")
    projector = h + merged * h * h + linear(h, text, bias=bias) + linear(text, text, bias=bias)
    return {"vision_tower": vision.pixtral(own), "projector": projector}


def qwen2_vl(outer: Fields, text: int) -> Counts:
    """A tower that calls its own width ``embed_dim`` and the language model's ``hidden_size``."""
    own = outer.inside("vision_config")
    e = own.whole("embed_dim")
    merger = 2 * e + _merger(e, own.whole_or(2, "spatial_merge_size"), own.whole("hidden_size"))
    return {"vision_tower": vision.qwen2_vl(own), "projector": merger}


def qwen2_5_vl(outer: Fields, text: int) -> Counts:
    """An RMSNorm and the merger."""
    own = outer.inside("vision_config")
    h = own.whole("hidden_size")
    merger = h + _merger(h, own.whole("spatial_merge_size"), own.whole("out_hidden_size"))
    return {"vision_tower": vision.qwen2_5_vl(own), "projector": merger}


def qwen3_vl(outer: Fields, text: int) -> Counts:
    """A LayerNorm and the merger, and one more of each (on merged patches) for every deepstack layer."""
    own = outer.inside("vision_config")
    h, side = own.whole("hidden_size"), own.whole("spatial_merge_size")
    merger = _merger(h, side, own.whole("out_hidden_size"))
    deep = own.entries("deepstack_visual_indexes") * (merger + 2 * side**2 * h)
    return {"vision_tower": vision.qwen3_vl(own), "projector": 2 * h + merger + deep}


def moonvit(outer: Fields, text: int) -> Counts:
    """Kimi: a LayerNorm and the merger."""
    own = outer.inside("vision_config")
    h = own.whole("hidden_size", "vt_hidden_size")
    projector = 2 * h + _merger(h, own.whole("merge_kernel_size"), text)
    return {"vision_tower": vision.moonvit(own), "projector": projector}


def gemma4(outer: Fields, text: int) -> Counts:
    """One matrix behind the tower."""
    own = outer.inside("vision_config")
    return {"vision_tower": vision.gemma4_vision(own), "projector": own.whole("hidden_size") * text}


def glm4v(outer: Fields, text: int) -> Counts:
    """A convolution over ``spatial_merge_size``^2 patches, a projection with a norm and a gated block."""
    own = outer.inside("vision_config")
    h, out, inner = own.whole("hidden_size"), own.whole("out_hidden_size"), own.whole("intermediate_size")
    merged = own.whole("spatial_merge_size") ** 2 * h
    projector = linear(merged, out) + out * out + 2 * out + 3 * out * inner
    return {"vision_tower": vision.glm4v(own), "projector": projector}


def internvl(outer: Fields, text: int) -> Counts:
    """A LayerNorm on merged patches and two projections."""
    own = outer.inside("vision_config")
    merged = outer.share("downsample_ratio") ** 2 * own.whole("hidden_size")
    return {
        "vision_tower": vision.internvit(own),
        "projector": 2 * merged + linear(merged, text) + linear(text, text),
    }


def deepseek_vl_v2(outer: Fields, text: int) -> Counts:
    """SigLIP by name; 2 x 2 patches to one token through two projections, and two embeddings that part tiles.

    Source: vLLM 0.33, deepseek_vl2.py and its configuration class, whose default the projector is.
    """
    own = outer.inside("vision_config")
    named = own.data.get("model_name")
    if not isinstance(named, str) or named not in NAMED:
        raise UnknownKind(f"{own.path}model_name {shown(named)}")
    sizes = Fields(NAMED[named], own.path, named)
    merged = 2**2 * sizes.whole("hidden_size")
    return _siglip(sizes) | {"projector": linear(merged, text) + linear(text, text) + 2 * text}


def qwen2_audio(outer: Fields, text: int) -> Counts:
    """Whisper's encoder and one projection."""
    own = outer.inside("audio_config")
    tower = audio.whisper(own, own.whole("max_source_positions"))
    return {"audio_tower": tower, "projector": linear(own.whole("d_model"), text)}


def qwen2_5_omni_audio(outer: Fields, text: int) -> Counts:
    """The encoder ends in its projection."""
    return {"audio_tower": audio.qwen2_5_omni(outer.inside("audio_config"))}


def qwen3_omni_audio(outer: Fields, text: int) -> Counts:
    """The encoder ends in its projections."""
    return {"audio_tower": audio.qwen3_omni(outer.inside("audio_config"))}


def _siglip(own: Fields) -> Counts:
    head = vision.siglip_head(own)
    return {"vision_tower": vision.siglip(own)} | ({"vision_head": head} if head else {})


def _by_type(own: Fields) -> Counts:
    kind = own.data.get("model_type")
    if kind == "siglip_vision_model":
        return _siglip(own)
    if kind == "pixtral":
        return {"vision_tower": vision.pixtral(own)}
    if kind == "clip_vision_model":
        return {"vision_tower": vision.clip(own)}
    raise UnknownKind(f"{own.path}model_type {shown(kind)}")


def _merger(h: int, side: int, out: int) -> int:
    """Two projections of ``side``^2 patches put together."""
    merged = side**2 * h
    return linear(merged, merged) + linear(merged, out)


#: wrapper -> the towers that are known, by where their fields lie.
COUNTERS: dict[str, dict[str, Counter]] = {
    "deepseek_vl_v2": {"vision_config": deepseek_vl_v2},
    "gemma3": {"vision_config": gemma3},
    "gemma4": {"vision_config": gemma4},
    "glm4v": {"vision_config": glm4v},
    "glm4v_moe": {"vision_config": glm4v},
    "idefics3": {"vision_config": idefics3},
    "internvl": {"vision_config": internvl},
    "internvl_chat": {"vision_config": internvl},
    "kimi_k25": {"vision_config": moonvit},
    "kimi_vl": {"vision_config": moonvit},
    "llama4": {"vision_config": llama4},
    "llava": {"vision_config": llava},
    "llava_next": {"vision_config": llava_next},
    "mistral3": {"vision_config": mistral3},
    "paligemma": {"vision_config": paligemma},
    "qwen2_5_omni": {"vision_config": qwen2_5_vl, "audio_config": qwen2_5_omni_audio},
    "qwen2_5_vl": {"vision_config": qwen2_5_vl},
    "qwen2_audio": {"audio_config": qwen2_audio},
    "qwen2_vl": {"vision_config": qwen2_vl},
    "qwen3_5": {"vision_config": qwen3_vl},
    "qwen3_5_moe": {"vision_config": qwen3_vl},
    "qwen3_omni_moe": {"vision_config": qwen3_vl, "audio_config": qwen3_omni_audio},
    "qwen3_vl": {"vision_config": qwen3_vl},
    "qwen3_vl_moe": {"vision_config": qwen3_vl},
    "smolvlm": {"vision_config": idefics3},
}
