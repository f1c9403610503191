"""Training on a page: a compiled step, exported as files for any static host.

    export   a step, its state and a page → a folder
    plans    further plans for more capable adapters
    state    the state of a step ↔ a safetensors file, which pages read and write too
    gallery  a page that links the pages in its folder
    lite  a JupyterLite site: notebooks whose Python runs in the page
    playground  a page with an editor, whose Python runs in the page; wheels: the packages of its Python
    serve    a folder, to the browsers of this machine
    site/    the runtime, the worker and the pages, which are copied

In: a compiled step. Out: files. The package uses only public names of the library. Start with docs/browser.md.
"""

from .errors import WebError
from .export import export
from .gallery import gallery
from .lite import lite
from .plans import TARGETS
from .playground import PYODIDE, playground, plot
from .serve import serve
from .state_file import load_state, save_state

__all__ = [
    "PYODIDE",
    "TARGETS",
    "WebError",
    "export",
    "gallery",
    "lite",
    "load_state",
    "playground",
    "plot",
    "save_state",
    "serve",
]
