"""Parameters of audio towers. Structure: transformers 5.24, modeling_qwen2_audio.py, modeling_qwen*_omni*.py."""

from __future__ import annotations

from .fields import Fields
from .vision import linear, vit_layer


def whisper(audio: Fields, positions: int) -> int:
    """Whisper's encoder: two convolutions of kernel 3 and layers whose keys have no bias."""
    d, mel = audio.whole("d_model"), audio.whole("num_mel_bins")
    layer = vit_layer(d, audio.whole("encoder_ffn_dim")) - d
    convolutions = linear(3 * mel, d) + linear(3 * d, d)
    return convolutions + positions * d + audio.whole("encoder_layers") * layer + 2 * d


def qwen2_5_omni(audio: Fields) -> int:
    """Qwen2.5-Omni: Whisper without stored positions, a projection and the embeddings of two marks."""
    out = audio.whole("output_dim")
    return whisper(audio, 0) + linear(audio.whole("d_model"), out) + 2 * out


def qwen3_omni(audio: Fields) -> int:
    """Qwen3-Omni: three convolutions that narrow the mel bands eightfold, and two projections."""
    d, narrow = audio.whole("d_model"), audio.whole("downsample_hidden_size")
    convolutions = linear(9, narrow) + 2 * linear(9 * narrow, narrow)
    stem = convolutions + narrow * (audio.whole("num_mel_bins") // 8) * d
    layers = audio.whole("encoder_layers") * vit_layer(d, audio.whole("encoder_ffn_dim"))
    return stem + layers + 2 * d + linear(d, d) + linear(d, audio.whole("output_dim"))
