"""The tables of planted faults, one for each part of the library; `planting.py` says what a row is.

Choose few and quick tests; `mutants.py` runs them. Where code changes, its faults change with it (`mutants.py --mend` finds
what was moved); where a new kind of mistake is possible, a row is added.
"""

from planting import Fault

from . import (
    compile,
    distributions,
    graph,
    kernels,
    library,
    logic,
    models,
    nn,
    optim,
    primitives,
    run,
    runtime,
    tensor,
    torch,
    train,
    web,
)

FAULTS: tuple[Fault, ...] = (
    *compile.FAULTS,
    *distributions.FAULTS,
    *graph.FAULTS,
    *kernels.FAULTS,
    *library.FAULTS,
    *logic.FAULTS,
    *models.FAULTS,
    *nn.FAULTS,
    *optim.FAULTS,
    *primitives.FAULTS,
    *run.FAULTS,
    *runtime.FAULTS,
    *tensor.FAULTS,
    *torch.FAULTS,
    *train.FAULTS,
    *web.FAULTS,
)
