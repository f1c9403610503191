"""GPT-2: a causal language model, its weights from Hugging Face's files, and sampling with a key-value cache.

    model = GPT.named("gpt2")                    # the shapes; weights are random
    load_weights(model, "model.safetensors")     # Hugging Face's names
    tokens = Sampler(model, temperature=0.8, top_k=40).generate([[15496, 995]], 50)

Source: Radford, Wu, Child, Luan, Amodei, Sutskever: "Language models are unsupervised multitask learners", 2019.
"""

from .model import GPT, SHAPES, Config
from .sampler import Sampler
from .weights import load_weights, read_model

__all__ = ["GPT", "SHAPES", "Config", "Sampler", "load_weights", "read_model"]
