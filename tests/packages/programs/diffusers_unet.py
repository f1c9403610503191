"""diffusers: a small UNet trained to find noise, with a scheduler that adds it."""

import diffusers
from both import fill, numbers, report, train, whole
from torch.nn import functional as F


def unet():
    model = diffusers.UNet2DModel(
        sample_size=8,
        in_channels=3,
        out_channels=3,
        layers_per_block=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8,
    )
    scheduler = diffusers.DDPMScheduler(num_train_timesteps=100)
    x, noise, when = numbers(2, 3, 8, 8), numbers(2, 3, 8, 8, seed=1), whole(2, below=100)
    noisy = scheduler.add_noise(x, noise, when)
    return train(fill(model), lambda m: F.mse_loss(m(noisy, when).sample, noise), lr=1e-3)


def conditioned():
    model = diffusers.UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=8,
        attention_head_dim=4,
    )
    x, text, when = numbers(2, 4, 8, 8), numbers(2, 3, 8, seed=1), whole(2, below=100)
    return train(fill(model), lambda m: m(x, when, encoder_hidden_states=text).sample.square().mean(), lr=1e-3)


def sampling():
    scheduler = diffusers.DDIMScheduler(num_train_timesteps=100)
    scheduler.set_timesteps(5)
    x = numbers(1, 3, 4, 4)
    for when in scheduler.timesteps:
        x = scheduler.step(x * 0.1, when, x).prev_sample
    return x.flatten().tolist()


if __name__ == "__main__":
    report(unet=unet, conditioned=conditioned, sampling=sampling)
