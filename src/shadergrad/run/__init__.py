"""Functions of tensors, captured once and replayed (`step`). `drive/`, below tensors, runs them on a device.

    trees     tensors within nested arguments and results
    places    locations of Python values: a container and a key
    reads     a code object → the chains of names, attributes and items that it loads
    watcher   looks these up while the function runs (users_code: only the user's; snapshot: contents before the capture)
    effects   values that the function stored in places
    guards    conditions for reusing a capture, and values that each call reads again (python_state)
    replay    a call of a captured function
    leaks     tensors that are referenced where no run can replace them
    naming    roles and names of a captured function's inputs and outputs
    capture   a function run once on pending tensors → a Replay
    anomalies the operation that produced NaN, in gradients and in steps
    step      sg.compile: capture for new arguments, replay for known ones

Each uses only those above it.
"""
