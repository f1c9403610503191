"""What lies between tensors and devices, and knows no tensor.

    tracing    what a function does while it is captured; tensors, modules and optimizers report to it
    structure  the programs of one structure: with its numbers in the text, or read from memory
    execute    nodes that someone wants → values on a device

`run/`, which captures and replays functions of tensors, stands on both.
"""
