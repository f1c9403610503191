"""The dot archetype: a tiled matrix multiplication whose operands are pulled and whose result goes through an epilogue.

A workgroup computes a bm x bn tile of results. In steps of bk along the contraction, a tile of each operand is loaded into workgroup
memory, and each thread keeps tm x tn sums in registers. A `DotChoice` (compile/choices.py) holds the parameters; these modules write the
kernel, in this order:

    kernel.py    the kernel of one multiplication, or of several that share a dispatch: positions of workgroups and threads
    product.py   the state while one multiplication is written, and names of its index variables
    operands.py  loads of operands into registers and tiles, a class per layout
    loop.py      the loop over the contraction: store a tile, load the next, multiply
    multiply.py  the multiply-adds of a step, in an order that suits the registers
    slices.py    the partial sums of slices, added through workgroup memory
    results.py   the epilogue: computes results from the sums, and stores them
    direct.py    multiplications without tiles: threads read operands directly, or share loads within a subgroup
    narrow.py    multiplications of a few rows with windows: a thread computes a whole column
    units.py     float16 multiplications on matrix units: a subgroup computes a block of results
"""
