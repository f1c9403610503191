"""Training on a page: a compiled step, exported as files for any static host.

    export   a step, its state and a page → a folder
    state    the state of a step ↔ a safetensors file, which pages read and write too
    serve    a folder, to the browsers of this machine
    site/    the runtime, the worker and the pages, as they are copied

In: a compiled step. Out: files. The package uses only public names of the library. Start with docs/browser.md.
"""

from .errors import WebError
from .export import export
from .serve import serve
from .state_file import load_state, save_state

__all__ = ["WebError", "export", "load_state", "save_state", "serve"]
