"""Eight architectures of transformers, small and random, trained for three steps."""

import transformers as t
from both import fill, numbers, report, train, whole

SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def language(model, **more):
    ids = whole(2, 7, below=50)
    return train(fill(model), lambda m: m(input_ids=ids, labels=ids, **more).loss)


def bert():
    config = t.BertConfig(**SMALL, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    return language(t.BertForMaskedLM(config))


def gpt2():
    config = t.GPT2Config(
        vocab_size=50, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    return language(t.GPT2LMHeadModel(config))


def llama():
    return language(t.LlamaForCausalLM(t.LlamaConfig(**SMALL, num_key_value_heads=1, max_position_embeddings=32)))


def mistral():
    config = t.MistralConfig(**SMALL, num_key_value_heads=1, max_position_embeddings=32, sliding_window=4)
    return language(t.MistralForCausalLM(config))


def t5():
    config = t.T5Config(
        vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, dropout_rate=0, decoder_start_token_id=0
    )
    return language(t.T5ForConditionalGeneration(config))


def vit():
    config = t.ViTConfig(
        **{k: v for k, v in SMALL.items() if k != "vocab_size"},
        image_size=8,
        patch_size=4,
        hidden_dropout_prob=0,
        attention_probs_dropout_prob=0,
    )
    pixels, labels = numbers(2, 3, 8, 8), whole(2, below=2)
    return train(fill(t.ViTForImageClassification(config)), lambda m: m(pixel_values=pixels, labels=labels).loss)


def clip():
    layers = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    text = t.CLIPTextConfig(**layers, vocab_size=50, max_position_embeddings=8, eos_token_id=49)
    vision = t.CLIPVisionConfig(**layers, image_size=8, patch_size=4)
    config = t.CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=8)
    pixels, ids = numbers(3, 3, 8, 8), whole(3, 6, below=50)
    return train(fill(t.CLIPModel(config)), lambda m: m(input_ids=ids, pixel_values=pixels, return_loss=True).loss)


def whisper():
    config = t.WhisperConfig(
        vocab_size=50,
        num_mel_bins=4,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_source_positions=8,
        max_target_positions=8,
        dropout=0,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        suppress_tokens=[],
        begin_suppress_tokens=[],
    )
    features, ids = numbers(2, 4, 16), whole(2, 6, below=50)
    return train(fill(t.WhisperForConditionalGeneration(config)), lambda m: m(input_features=features, labels=ids).loss)


if __name__ == "__main__":
    report(bert=bert, gpt2=gpt2, llama=llama, mistral=mistral, t5=t5, vit=vit, clip=clip, whisper=whisper)
