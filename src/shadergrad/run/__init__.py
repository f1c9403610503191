"""Where graphs are run: the driver (`execute`), and functions captured once and replayed (`step`).

    tracing   what a function does while it is captured; tensors, modules and optimizers report to it
    execute   nodes that someone wants → values on a device
    trees     tensors within nested arguments and results
    replay    what a call of a captured function does
    naming    roles and names of what a captured function reads and writes
    capture   a function run once on pending tensors → something to replay
    step      sg.compile: capture for new arguments, replay for known ones

Each uses only those above it. `tracing` and `execute` know no tensor, for tensors stand on them.
"""
