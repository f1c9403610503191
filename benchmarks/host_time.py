"""Where a replayed step's host time goes: the Python of a call, recording, ending the pass, finishing, submitting."""
import sys, time, statistics
sys.path.insert(0,'benchmarks')
import shadergrad as sg
from step import training_step
from workloads import WORKLOADS
from shadergrad.runtime.device import get_device
import importlib
dev='webgpu'; d=get_device(dev); n=d.native
nat=importlib.import_module('shadergrad.runtime.native'); lib=nat.lib; NULL=nat.NULL
T={}
pc=time.perf_counter
def run(copies, commands):
    t0=pc()
    encoder=lib.wgpuDeviceCreateCommandEncoder(n.raw,NULL)
    p=lib.wgpuCommandEncoderBeginComputePass(encoder,NULL)
    t1=pc()
    sp,sb,dp=lib.wgpuComputePassEncoderSetPipeline,lib.wgpuComputePassEncoderSetBindGroup,lib.wgpuComputePassEncoderDispatchWorkgroups
    for pipeline,group,x,y,z in commands:
        if pipeline is not None: sp(p,pipeline)
        if group is not None: sb(p,0,group,0,NULL)
        dp(p,x,y,z)
    t2=pc()
    lib.wgpuComputePassEncoderEnd(p); lib.wgpuComputePassEncoderRelease(p)
    t3=pc()
    c=lib.wgpuCommandEncoderFinish(encoder,NULL); lib.wgpuCommandEncoderRelease(encoder)
    t4=pc()
    n._commands[0]=c
    index=lib.wgpuQueueSubmitForIndex(n.queue,1,n._commands)
    t5=pc()
    lib.wgpuCommandBufferRelease(c); n.submits+=1; n.dispatches+=len(commands)
    n._in_flight.append(index)
    t6=pc()
    for k,v in zip(('begin','record','end pass','finish','submit','release'),(t1-t0,t2-t1,t3-t2,t4-t3,t5-t4,t6-t5)): T.setdefault(k,[]).append(v)
for task in sys.argv[1:]:
    w=WORKLOADS[task](False); sg.manual_seed(0)
    step=sg.compile(training_step(sg,w,w.model(sg).to(dev)))
    x,y=(sg.tensor(a,device=dev) for a in w.batch())
    for _ in range(4): step(x,y)
    sg.sync(); T.clear(); tot=[]
    n.run=run
    for _ in range(60):
        for _ in range(6):
            t=pc(); step(x,y); tot.append(pc()-t)
        n._in_flight.clear(); sg.sync()
    del n.run
    D=len(step.plan.dispatches)
    med={k:statistics.median(v)*1e6 for k,v in T.items()}
    total=statistics.median(tot)*1e6
    print(task,D,'dispatches, call %.0f us;'%total,', '.join('%s %.1f'%kv for kv in med.items()),'; python around %.1f'%(total-sum(med.values())),'; commands: pipelines %d groups %d'%(sum(c[0] is not None for c in COMMANDS) if 0 else -1,-1))
