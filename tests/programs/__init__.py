"""A net of random programs: PyTorch says what each means, every mode of the library must say the same.

`generate` makes a program from a number, `language` prints and runs it, `compare` finds the first difference from
PyTorch, `shrink` makes a failing program small, `cases` holds programs written by hand, `features` says which parts are
in `make test`. `scripts/programs.py` runs as many as one likes.
"""
