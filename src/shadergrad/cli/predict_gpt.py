"""`shadergrad predict gpt`: samples from a language model. In: a run's folder, or a file of weights. Out: text, or token ids."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ..errors import CheckpointError, ShadergradError


class PredictionError(ShadergradError, ValueError):
    """Options that do not suit the model."""


def gpt(
    model: Annotated[
        Path, typer.Argument(help="The --out folder of `train gpt`, or a safetensors file with GPT-2's weights.")
    ],
    prompt: Annotated[str | None, typer.Option(help="The text to continue, for a model of characters.")] = None,
    ids: Annotated[str | None, typer.Option(help="Token ids instead of a prompt, as 15496,995.")] = None,
    tokens: Annotated[int, typer.Option(help="Number of tokens to write.")] = 100,
    temperature: Annotated[
        float, typer.Option(help="Below 1, likely tokens come more often; 0 takes the most likely.")
    ] = 0.8,
    top_k: Annotated[
        int | None, typer.Option(help="Sample from this number of most likely tokens.", show_default="all")
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of the random draws.")] = 0,
    device: Annotated[str, typer.Option(help="webgpu, cpu, webgpu:N, or auto: a GPU if there is one.")] = "auto",
) -> None:
    """Continue a text with a language model, a token at a time. Files of weights take and give token ids."""
    import shadergrad as sg  # here, as help needs nothing of it

    from ..models.gpt import Sampler  # for the same reason
    from ..train.training_run import choose_device  # and this

    network, vocabulary = _read_run(model) if model.is_dir() else _read_file(model)
    begin = _begin(prompt, ids, vocabulary, network.config.vocab_size)
    network.to(choose_device(device, Console(stderr=True)))
    sg.manual_seed(seed)
    found = Sampler(network, temperature=temperature, top_k=top_k).generate([begin], tokens)[0]
    written = ",".join(map(str, found)) if vocabulary is None or ids is not None else vocabulary.decode(found)
    Console(highlight=False).out(written, highlight=False)


def _read_file(path: Path) -> tuple[Any, None]:
    from ..models.gpt import read_model  # as above

    return read_model(path), None


def _read_run(folder: Path) -> tuple[Any, Any]:
    """The model of a run, and its characters."""
    from .. import tensor  # as above
    from ..checkpoint import load_checkpoint, unpack  # as above
    from ..data.text import Vocabulary  # as above
    from ..models.gpt import GPT, Config  # as above

    arrays, meta = load_checkpoint(folder)
    try:
        if meta["recipe"] != "gpt":
            raise CheckpointError(f"{folder} is a run of {meta['recipe']}, not of gpt.")
        described = meta["hyperparameters"]
        network = GPT(Config(**described["model"]))
        network.load_state_dict(unpack({name: tensor(array) for name, array in arrays.items()}, meta["model"]))
        return network, Vocabulary(described["characters"])
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{folder} is no run of gpt: {error}.") from None


def _begin(prompt: str | None, ids: str | None, vocabulary: Any, size: int) -> list[int]:
    """The tokens of the prompt."""
    if (prompt is None) == (ids is None):
        raise PredictionError("give --prompt or --ids, and not both: what the model is to go on from.")
    if prompt is not None:
        if vocabulary is None:
            raise PredictionError("the file holds no characters, so it takes no --prompt. Hint: --ids, as 15496,995")
        return vocabulary.encode(prompt).tolist()
    assert ids is not None
    words = [word.strip() for word in ids.split(",")]
    if not all(word.isdigit() for word in words):
        raise PredictionError(f"--ids is {ids!r}; it must be numbers with commas between, as 15496,995.")
    wrong = [word for word in words if int(word) >= size]
    if wrong:
        raise PredictionError(f"--ids has {wrong[0]}, and there are {size} tokens, from 0.")
    return [int(word) for word in words]
