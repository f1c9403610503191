"""The table of libraries in docs/torch-device.md. In: an environment with the libraries. Out: the page, with what their tests found.

    python scripts/torch_ecosystem.py

Runs tests/torch_device's tests of libraries on the cpu device behind `webgpu`, and writes one row a library: its version, what ran
as on PyTorch's cpu, what did not.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "torch-device.md"
BEGIN, END = "<!-- libraries: scripts/torch_ecosystem.py -->", "<!-- /libraries -->"
TESTS = [f"tests/torch_device/{name}.py" for name in ("test_ecosystem", "test_trainers", "test_examples")]
LIBRARIES = {  # the words in a test's name by which it belongs to a library
    "transformers": ("BERT", "GPT-2", "Llama", "T5", "ViT", "Whisper", "transformers", "generates"),
    "peft": ("LoRA", "hugging_face"),
    "accelerate": ("accelerate",),
    "diffusers": ("UNet2D",),
    "torchvision": ("torchvision",),
    "timm": ("resnet18", "vit_tiny", "efficientnet", "mobilenetv3", "convnext"),
    "torch_geometric": ("GCN",),
    "lightning": ("lightning",),
    "torchmetrics": ("torchmetrics",),
    "einops": ("einops",),
}
CASE = re.compile(r"\[(?:cpu-)?(.+?)\]$")


def library_of(test: str) -> str | None:
    """The library that a test belongs to; the longest word decides, so that torchvision's resnet18 is not timm's."""
    found = [(len(word), name) for name, words in LIBRARIES.items() for word in words if word in test]
    return max(found)[1] if found else None


def results() -> dict[str, dict[str, list[str]]]:
    """Of each library the cases that passed, failed and were skipped."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            "",
            "-k",
            "cpu and not webgpu]",
            f"--junitxml={report}",
            *TESTS,
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1"}
        subprocess.run(command, cwd=ROOT, env=environment, check=False)
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name = case.get("name", "")
            if "webgpu-" in name or (library := library_of(name)) is None:
                continue
            kinds = {child.tag for child in case}
            kind = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
            found[library][kind].append(shown(name))
    return found


def shown(test: str) -> str:
    """A case in a word or two."""
    case = CASE.search(test)
    if case is None or case[1] in ("cpu", "{}"):
        return test.partition("[")[0].removeprefix("test_").replace("_", " ")
    return case[1].removeprefix("torchvision: ").replace("'", "").replace("{", "").replace("}", "")


def version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def table() -> str:
    found = results()
    lines = [
        BEGIN,
        f"Run on {datetime.datetime.now(datetime.UTC).date()} with PyTorch {version('torch')}, on the cpu device behind `webgpu`:",
        "",
        "| library | version | equals PyTorch's cpu | does not | was not run |",
        "|---|---|---|---|---|",
    ]
    for library in LIBRARIES:
        cells = (", ".join(found[library][kind]) for kind in ("passed", "failed", "skipped"))
        lines.append(f"| {library} | {version(library)} | {' | '.join(cells)} |")
    return "\n".join([*lines, END])


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(before + table() + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
