"""Where the tensors of a program under `shadergrad run` lie, and which library the processes that it starts get."""

from __future__ import annotations

from pathlib import Path

from test_run_script import run

CHILDREN = """
import multiprocessing, subprocess, sys
import torch
def work(queue):
    import torch.nn as nn
    queue.put((torch.__config__.show()[:10], str(torch.ones(2).device), nn.Linear.__module__))
if __name__ == "__main__":
    for how in ("spawn", "fork"):
        context = multiprocessing.get_context(how)
        queue = context.SimpleQueue()
        process = context.Process(target=work, args=(queue,))
        process.start()
        process.join(60)
        print(how, *queue.get())
    code = "import torch.nn.functional, torch; print(torch.__config__.show()[:10], torch.accelerator.is_available())"
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip())
"""


def test_cpu_means_cpu_everywhere(tmp_path: Path) -> None:
    code, out, error = run(
        tmp_path,
        "import torch\n"
        "print(torch.accelerator.is_available(), torch.accelerator.current_accelerator(), torch.accelerator.device_count(),\n"
        "      torch.cuda.is_available(), torch.ones(1).device)\n",
    )
    assert (code, out, error) == (0, "False None 0 False cpu\n", "")


def test_processes_that_a_program_starts_get_the_library(tmp_path: Path) -> None:
    code, out, error = run(tmp_path, CHILDREN)
    assert (code, out) == (
        0,
        "spawn shadergrad cpu shadergrad.nn.linear\nfork shadergrad cpu shadergrad.nn.linear\nshadergrad False\n",
    ), error


def test_a_process_without_the_library_is_told(tmp_path: Path) -> None:
    code, out, _ = run(
        tmp_path,
        "import os, subprocess, sys\n"
        "paths = os.environ['PYTHONPATH'].split(os.pathsep)\n"
        "environment = os.environ | {'PYTHONPATH': paths[0]}\n"
        "hide = 'import sys; sys.modules[\"shadergrad\"] = None; import torch.nothing'\n"
        "print(subprocess.run([sys.executable, '-c', hide], env=environment, capture_output=True, text=True).stderr)\n",
    )
    assert code == 0
    assert "shadergrad run: this process has PyTorch instead of shadergrad" in out


def test_a_device_of_pytorchs_may_be_named(tmp_path: Path) -> None:
    code, out, error = run(
        tmp_path,
        "import torch\n"
        "print(torch.device('cuda'), torch.device('cuda', 1).index, torch.device('meta').type)\n"
        "torch.ones(2).to(torch.device('cuda'))\n",
    )
    assert (code, out) == (1, "cuda 1 meta\n")
    assert "unknown device 'cuda'" in error
