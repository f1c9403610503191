"""Modules that PyTorch has for its own sake and programs import all the same, a file each: what they hold works.

In: names that programs ask of torch.hub, torch.utils._pytree and others. Out: what does the same here, or raises in words. Names
that a file here lacks are absent as everywhere (`as_torch.absent`).
"""
