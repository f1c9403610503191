"""LoRA of a small Llama on real text, with Hugging Face's transformers, peft and Trainer, on any GPU.

Hu et al., LoRA: low-rank adaptation of large language models, 2021. The model first reads Python's own documentation with all its
parameters; then two thin matrices for each projection learn a tale, while the model's own stay as they were.
Run: pip install transformers peft accelerate; python examples/torch/hugging_face.py [webgpu|cpu]; cpu is PyTorch's.
"""

import os
import sys
from importlib.resources import files
from pydoc_data.topics import topics
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

import shadergrad.torch  # registers the device

BLOCK, WIDTH, LAYERS, HEADS, BATCH, RANK, FIRST, THEN = 64, 64, 2, 4, 16, 8, 200, 100
PYTHON = topics["class"] + topics["function"]
TALE = (files("shadergrad.recipes") / "tale.txt").read_text(encoding="utf-8")
LETTERS = sorted(set(PYTHON + TALE))


class Pieces(Dataset):
    """A text in pieces of equal length, as a Trainer takes them."""

    def __init__(self, text: str) -> None:
        self.data = torch.tensor([LETTERS.index(c) for c in text])

    def __len__(self) -> int:
        return (len(self.data) - BLOCK) // 8

    def __getitem__(self, k: int) -> dict[str, torch.Tensor]:
        piece = self.data[8 * k : 8 * k + BLOCK]
        return {"input_ids": piece, "labels": piece}


def build() -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=len(LETTERS), hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=HEADS // 2, max_position_embeddings=BLOCK,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def adapted(model: LlamaForCausalLM) -> Any:
    projections = ["q_proj", "k_proj", "v_proj", "o_proj"]
    return get_peft_model(model, LoraConfig(r=RANK, lora_alpha=2 * RANK, lora_dropout=0.0, target_modules=projections))


def train(model: Any, text: str, steps: int, lr: float, device: str) -> list[float]:
    """The losses that the Trainer wrote down."""
    os.environ["ACCELERATE_TORCH_DEVICE"] = device  # the Trainer asks accelerate for a device
    options = TrainingArguments(
        output_dir="runs", max_steps=steps, per_device_train_batch_size=BATCH, learning_rate=lr, logging_steps=max(steps // 10, 1),
        save_strategy="no", report_to=[], disable_tqdm=True, seed=0, dataloader_pin_memory=False,
    )  # fmt: skip
    trainer = Trainer(model=model, args=options, train_dataset=Pieces(text))
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def training(model: LlamaForCausalLM, device: str) -> tuple[Any, list[float]]:
    """The adapted model and all losses."""
    losses = train(model, PYTHON, FIRST, 3e-3, device)
    model = adapted(model)
    return model, losses + train(model, TALE, THEN, 1e-2, device)


if __name__ == "__main__":
    device = sys.argv[1] if len(sys.argv) > 1 else "webgpu"
    torch.manual_seed(0)
    model, _ = training(build(), device)
    model.print_trainable_parameters()
    begin = torch.tensor([[LETTERS.index(c) for c in "The keeper "]], device=device)
    found = model.generate(input_ids=begin, max_new_tokens=40, do_sample=False, attention_mask=torch.ones_like(begin))
    print("".join(LETTERS[i] for i in found[0].tolist()))
