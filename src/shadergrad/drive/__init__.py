"""Executes nodes on a device. This package is between tensors and devices, and does not use tensors.

    tracing    the record of a function's actions during capture; tensors, modules and optimizers report to it
    structure  the programs of one structure: with its numbers in the source, or read from memory
    execute    requested nodes → values on a device

`run/`, which captures and replays functions of tensors, uses both.
"""
