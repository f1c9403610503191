"""Complete models, written with public names only.

coevolution/: contacts between two proteins, from the sequences of both. gpt/: language models in the shape of GPT-2.
"""

from . import coevolution, gpt

__all__ = ["coevolution", "gpt"]
