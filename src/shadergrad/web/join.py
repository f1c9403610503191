"""Joins a page's module and the modules that it re-exports, its rooms, into one file: a page requests one file, and other sites copy one.

In: a module that only exports names from its rooms, in an order in which each room imports only from earlier ones. Out: one module
with the same exports and types. The sources run in a browser as they are; joining them renames nothing, so a name that two rooms
declare is a syntax error. It imports only the standard library, because scripts/npm.py runs without this library.
"""

from __future__ import annotations

import re
from pathlib import Path

_ROOM = re.compile(r'^export \{(?P<names>[^}]*)\} from "(?P<room>\./[^"]+)";\n', re.MULTILINE)
_HEAD = re.compile(r"/\*\*.*?\*/\n", re.DOTALL)
_IMPORTS = re.compile(
    r'^import \{[^}]*\} from "\./[^"]+";\n|^/\*\* @typedef \{import\("\./[^"]+"\)\.(\w+)\} \1 \*/\n', re.MULTILINE
)
_TYPE = re.compile(r'import\("\./[^"]+"\)\.')
_EXPORTED = re.compile(r"^export (?=(?:async )?(?:const|function|class) (\w+))", re.MULTILINE)


def joined(module: Path) -> str:
    """The module as one file: its head, and its rooms without imports. It exports the same names as the module.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "a.js").write_text("export const one = 1;\\n")
    ...     _ = (Path(folder) / "b.js").write_text('import { one } from "./a.js";\\n\\nexport const two = one + one;\\n')
    ...     _ = (Path(folder) / "all.js").write_text('export {} from "./a.js";\\nexport { two } from "./b.js";\\n')
    ...     print(joined(Path(folder) / "all.js"))
    const one = 1;
    <BLANKLINE>
    export const two = one + one;
    <BLANKLINE>
    """
    text = module.read_text(encoding="utf-8")
    rooms = [(found["room"], found["names"].replace(",", " ").split()) for found in _ROOM.finditer(text)]
    public = {name for _, names in rooms for name in names}
    head = _HEAD.match(text)
    parts = [] if head is None else [head[0]]
    for room, _ in rooms:
        own = _IMPORTS.sub("", (module.parent / room).read_text(encoding="utf-8"))
        own = _EXPORTED.sub(lambda found: found[0] if found[1] in public else "", _TYPE.sub("", own))
        parts.append(re.sub(r"\n{3,}", "\n\n", own).strip() + "\n")
    return "\n".join(parts)
