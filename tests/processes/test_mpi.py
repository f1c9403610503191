"""Process groups over MPI, where mpi4py and mpirun are installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

from ranks import SRC

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("mpi4py") is None or shutil.which("mpirun") is None, reason="there is no MPI"
    ),
    pytest.mark.slow,
]

PROGRAM = """
import shadergrad as sg
import warnings
dist=sg.distributed
for options,word in (({"rank":5},"made this process rank"),({"world_size":3},"of 2"),({"init_method":"tcp://127.0.0.1:1"},"no init_method")):
    try: dist.init_process_group("mpi",**options)
    except sg.distributed.DistError as e: assert word in str(e),str(e)
    else: raise AssertionError(options)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always"); dist.init_process_group("mpi",timeout=5)
assert "no time limits" in str(told[0].message)
rank,size=dist.get_rank(),dist.get_world_size(); assert size==2 and dist.get_backend()=="mpi"
def same(t,e): assert t.tolist()==e,(t.tolist(),e)
for dt in (sg.float32,sg.float16,sg.int32,sg.int64):
    x=sg.tensor([rank+1,2],dtype=dt); dist.all_reduce(x); same(x,[3,4])
x=sg.tensor([rank+1.0]); dist.reduce(x,dst=1); same(x,[3.0] if rank else [1.0])
x=sg.tensor([float(rank)]); dist.broadcast(x,src=1); same(x,[1.0])
o=sg.zeros(2); dist.all_gather_into_tensor(o,sg.tensor([rank+1.0])); same(o,[1,2])
o=sg.zeros(1); dist.reduce_scatter_tensor(o,sg.tensor([1.0,2.0])); same(o,[2.0*(rank+1)])
got=[sg.zeros(1),sg.zeros(1)] if rank==0 else None; dist.gather(sg.tensor([rank+1.0]),got,dst=0)
if rank==0: same(sg.cat(got),[1,2])
dist.scatter(o,[sg.ones(1),sg.ones(1)*2] if rank==0 else None,src=0); same(o,[rank+1.0])
o=sg.zeros(2); dist.all_to_all_single(o,sg.tensor([10.0*rank,10.0*rank+1])); same(o,[0.0+rank,10.0+rank])
if rank==0: dist.send(sg.ones(2),dst=1)
else:
    x=sg.zeros(2); dist.recv(x,src=0); same(x,[1,1])
f=[None]*2; dist.all_gather_object(f,{"r":rank}); assert f==[{"r":0},{"r":1}]
g=dist.new_group([1]); assert dist.get_world_size(g)==(1 if rank else -1)
m=sg.nn.parallel.DistributedDataParallel(sg.nn.Linear(1,1,bias=False))
step=sg.compile(lambda x: (m.zero_grad(), m(x).sum().backward(), m.module.weight.grad*1)[2])
for _ in range(3): same(step(sg.tensor([[rank+1.0]])),[[1.5]])
try: dist.all_reduce(sg.ones(1+rank))
except sg.distributed.DistError as e: assert "the same call" in str(e)
else: raise AssertionError
dist.barrier()
dist.destroy_process_group()
"""


def test_operations_and_data_parallel_training_work_over_mpi() -> None:
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, "-c", PROGRAM]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
