"""Weight quantisers, one file each, put into a model by `quantize_weights`; they go with any neuron.

Plain torch: they may import neurons and below, neither Hydra nor transformers.
"""

from spikelm.weights.layers import build_quantizer, quantize_weights, quantized
from spikelm.weights.quantizer import WeightQuantizer

__all__ = ["WeightQuantizer", "build_quantizer", "quantize_weights", "quantized"]
