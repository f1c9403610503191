"""Functions of tensors, captured once and replayed (`step`). What runs them on a device is `drive/`, below tensors.

    trees     tensors within nested arguments and results
    places    where Python keeps values: a container and a key
    reads     a code object → the chains of names, attributes and items that it loads
    watcher   looks these up while the function runs (users_code: only the user's; snapshot: as it was before)
    effects   what the function left in places
    guards    what must be there again for a capture to hold, and what is read anew (python_state)
    replay    what a call of a captured function does
    leaks     tensors that stay where no run can put another one
    naming    roles and names of what a captured function reads and writes
    capture   a function run once on pending tensors → something to replay
    anomalies the operation that NaN comes from, of gradients and of steps
    step      sg.compile: capture for new arguments, replay for known ones

Each uses only those above it.
"""
