"""The predictor of a run. In: the folder of a run of phase 2. Out: its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import shadergrad as sg

from ...checkpoint import TENSORS_FILE, load_checkpoint
from ...errors import CheckpointError
from ...models import coevolution as co
from .options import SHAPE


def load_predictor(folder: Path, device: str) -> tuple[co.ContactPredictor, float]:
    """The model of a run of phase 2, and the weight of a contact in its loss. Raises CheckpointError for any other run."""
    arrays, meta = load_checkpoint(folder)
    values: dict[str, Any] = meta.get("hyperparameters", {})
    if meta.get("recipe") != "coevolution" or values.get("phase") != "contacts":
        raise CheckpointError(
            f"{folder / TENSORS_FILE} is no run that learned contacts. "
            "Hint: shadergrad train coevolution --phase contacts, whose --out this command takes."
        )
    model = co.ContactPredictor(co.CoevolutionTransformer(**{name: values[name] for name in SHAPE}))
    model.load_state_dict({name: sg.tensor(arrays[f"model/{name}"]) for name in model.state_dict()})
    return model.to(device).eval(), float(values["balance"])
