"""The dot archetype: a tiled matrix multiplication whose operands are pulled and whose result goes through an epilogue.

A workgroup computes a bm x bn tile of results. Steps of bk along the contraction bring a tile of each operand into workgroup memory,
and each thread keeps tm x tn sums in registers. A `DotChoice` (compile/choices.py) says how; these modules write it, in this order:

    kernel.py    the kernel of one product, or of several that share a dispatch: where a workgroup and a thread stand
    product.py   the state of writing one product, and names for places along its axes
    operands.py  the operands from memory to registers to tiles, a class a layout
    loop.py      the loop over the contraction: store a tile, fetch the next, multiply
    multiply.py  the multiplications of a step, in the order that suits registers
    slices.py    the sums of slices, joined through workgroup memory
    results.py   the epilogue: results computed of sums, and stored
    direct.py    products without tiles, whose threads read where they want, or share loads within a subgroup
    narrow.py    products with a few rows over windows: a thread has a whole column
    units.py     products of float16 on matrix units: a subgroup has a block of results
"""
