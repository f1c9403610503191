"""peft: a small GPT-2 with LoRA, trained, and merged."""

import peft
import transformers as t
from both import fill, report, train, whole


def lora():
    config = t.GPT2Config(
        vocab_size=50, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    model = peft.get_peft_model(
        t.GPT2LMHeadModel(config), peft.LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, target_modules=["c_attn"])
    )
    fill(model)
    ids = whole(2, 7, below=50)
    losses = train(model, lambda m: m(input_ids=ids, labels=ids).loss, lr=0.1)
    counts = model.get_nb_trainable_parameters()
    merged = model.merge_and_unload()
    return [*losses, merged(input_ids=ids, labels=ids).loss.item(), *counts]


if __name__ == "__main__":
    report(lora=lora)
