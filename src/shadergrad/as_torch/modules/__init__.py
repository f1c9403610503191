"""PyTorch's own modules that programs import, such as torch.hub and torch.utils._pytree: one file each.

A function here does the same as PyTorch's, or raises an error that says why it cannot. Other names of these modules are placeholders
(`as_torch.absent`).
"""
