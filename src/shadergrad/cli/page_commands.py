"""The commands of pages: `shadergrad export`, `shadergrad gallery`, `shadergrad lite`, `shadergrad playground` and `shadergrad serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .. import recipes
from ..train.recipe_files import is_path, recipe_file, unknown_recipe


def export(
    recipe: Annotated[str, typer.Argument(help="The name of a recipe, or the path of your own.")],
    folder: Annotated[Path, typer.Argument(help="The folder to write.")],
    batch_size: Annotated[int | None, typer.Option(help="Samples per step; by default the recipe's.")] = None,
    lr: Annotated[float | None, typer.Option(help="The initial learning rate; by default the recipe's.")] = None,
    seed: Annotated[int | None, typer.Option(help="The seed of the initial weights.")] = None,
) -> None:
    """Write a page that trains a recipe in the browser, on the visitor's GPU."""
    from ..train.page_export import export_recipe  # here, as no other command needs pages

    if recipe in recipes.names():
        found, name = recipes.find(recipe), recipe
    elif is_path(recipe):
        found, name = recipe_file(Path(recipe).expanduser()), Path(recipe).stem
    else:
        raise unknown_recipe(recipe, recipes.names())
    export_recipe(name, found, folder, batch_size=batch_size, lr=lr, seed=seed)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    Console().out(f"{folder}: {size / 1024:,.0f} KiB. To see it: shadergrad serve {folder}", highlight=False)


SHOWN = ("digits", "digits-cnn", "xor", "checkerboard", "lizard", "letter-g", "char-lm")  # by a gallery


def gallery(
    folder: Annotated[Path, typer.Argument(help="The folder to write.")],
    chosen: Annotated[
        list[str] | None, typer.Argument(help=f"Recipes; by default {', '.join(SHOWN)}.", metavar="[RECIPE]...")
    ] = None,
    playground: Annotated[bool, typer.Option(help="With a page whose Python runs in the browser.")] = True,
    address: Annotated[str, typer.Option(help="Where it will lie on the web, for the pictures in links to it.")] = "",
) -> None:
    """Write the pages of several recipes, each in a folder of its own, and a page that links them."""
    from .. import web  # as above
    from ..train.page_export import export_recipe  # as above

    names = chosen or list(SHOWN)
    for name in names:
        if name not in recipes.names():
            raise unknown_recipe(name, recipes.names())
    for name in names:
        export_recipe(name, recipes.find(name), folder / name)
    if playground:
        web.playground(folder / "playground")
    web.gallery(folder, address=address, first=[*names, "playground"])
    Console().out(f"{folder}: a gallery. To see it: shadergrad serve {folder}", highlight=False)


def playground(
    folder: Annotated[Path, typer.Argument(help="The folder to write.")],
    pyodide: Annotated[
        str | None,
        typer.Option(
            help="The address of a folder of Pyodide's, or one here, which is copied.", show_default="on jsDelivr"
        ),
    ] = None,
    program: Annotated[Path | None, typer.Option(help="A program that the editor begins with.")] = None,
) -> None:
    """Write a page with an editor, whose Python trains in the browser."""
    from .. import web  # as above

    try:
        text = None if program is None else program.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise web.WebError(f"[playground] {program} cannot be read: {error}.") from None
    web.playground(folder, pyodide or web.PYODIDE, text)
    Console().out(f"{folder}: a page with Python. To see it: shadergrad serve {folder}", highlight=False)


def lite(
    folder: Annotated[Path, typer.Argument(help="The folder to write.")],
    pyodide: Annotated[
        str | None, typer.Option(help="The address of a folder of Pyodide's, or one here, which is copied.")
    ] = None,
) -> None:
    """Write a JupyterLite site: notebooks whose Python trains in the browser."""
    from .. import web  # as above

    web.lite(folder, pyodide)
    Console().out(f"{folder}: notebooks. To see them: shadergrad serve {folder}", highlight=False)


def serve(
    folder: Annotated[Path, typer.Argument(help="A folder that export wrote.")],
    port: Annotated[int, typer.Option(help="0 takes a free port.")] = 8000,
) -> None:
    """Serve a folder to browsers on this machine until Ctrl-C."""
    from .. import web  # as above

    with web.serve(folder, port) as server:
        Console().out(f"http://localhost:{server.server_address[1]}/  (Ctrl-C to end)", highlight=False)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
