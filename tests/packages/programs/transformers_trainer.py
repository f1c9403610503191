"""transformers' Trainer over a small BERT: the losses that it logs, and what it evaluates to."""

import tempfile

import torch
import transformers as t
from both import fill, report, whole


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, k):
        return {"input_ids": whole(6, below=50, seed=k), "labels": torch.tensor(k % 2)}


def trainer():
    config = t.BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        hidden_dropout_prob=0,
        attention_probs_dropout_prob=0,
    )
    model = fill(t.BertForSequenceClassification(config))
    with tempfile.TemporaryDirectory() as folder:
        arguments = t.TrainingArguments(
            folder,
            per_device_train_batch_size=4,
            num_train_epochs=2,
            logging_steps=1,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            learning_rate=1e-3,
            train_sampling_strategy="sequential",
        )
        made = t.Trainer(model=model, args=arguments, train_dataset=Sentences(), eval_dataset=Sentences())
        made.train()
        logged = [entry["loss"] for entry in made.state.log_history if "loss" in entry]
        return [*logged, made.evaluate()["eval_loss"]]


if __name__ == "__main__":
    report(trainer=trainer)
