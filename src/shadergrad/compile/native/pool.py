"""The thread pool as functions in LLVM IR: one runs a list of kernels, the other is the loop of a worker thread.

A kernel's units are divided into chunks, which threads claim one by one: the calling thread from the first on, workers from the last. If a worker is
late, the caller claims its chunks, so nobody waits for a thread to wake up. The result of a chunk does not depend on the thread.

Both functions share a header, an array of 64-bit words. Words that different threads write are LINE words apart, each in its own cache line:

| word | contents |
|---|---|
| CLAIM | number of the kernel (32 bits), first unclaimed chunk (16), end of the unclaimed chunks (16) |
| DONE | chunks that workers have finished |
| JOB | address of the kernel's function, address of its buffers, units, chunks |
| MOST | maximum number of chunks of a kernel; 1 if the caller has no workers |
| PHASE | IDLE, RUNNING (workers spin until the run ends) or STOPPED (workers return) |
| WORKERS + LINE k | AWAKE or ASLEEP: whether worker k is in its loop |

The kernel's number in CLAIM makes a claim fail if the worker read JOB before the caller published the next kernel.
"""

from __future__ import annotations

LINE = 8  # words: 64 bytes
CLAIM, DONE, JOB, MOST, PHASE, WORKERS = 0, LINE, 2 * LINE, 3 * LINE, 4 * LINE, 5 * LINE
IDLE, RUNNING, STOPPED = 0, 1, 2
ASLEEP, AWAKE = 0, 1
RECORD = 4  # words of a kernel in a list: function, buffers, units, minimum units of a chunk
MOST_CHUNKS = (1 << 15) - 1
PATIENCE = 255  # pauses before a waiting thread yields its core; one less than a power of two

PAUSES = {
    "x86_64": ("call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"),
    "aarch64": ("call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)"),
}


def run_text(architecture: str, yields: bool) -> str:
    """`void kernel(ptr list, i64 count, i64 header)`: runs the kernels of a list, one after another, each by all threads."""
    return _filled(_RUN, architecture, yields)


def work_text(architecture: str, yields: bool) -> str:
    """`void kernel(ptr header, i64 worker, i64 pauses)`: claims chunks until nothing came for so many pauses and PHASE is not RUNNING."""
    return _filled(_WORK, architecture, yields)


def _filled(text: str, architecture: str, yields: bool) -> str:
    pause, declared = PAUSES.get(architecture, ("", ""))
    text = text.replace("$PLACES", _PLACES)
    words = {
        "PAUSE": pause,
        "YIELD": "%ignored = call i32 @sched_yield()" if yields else "",
        "DECLARED": "\n".join(filter(None, (declared, "declare i32 @sched_yield()" if yields else ""))),
        **{name: str(value) for name, value in globals().items() if name.isupper() and isinstance(value, int)},
    }
    for name in sorted(words, key=len, reverse=True):
        text = text.replace(f"${name}", words[name])
    return text


_PLACES = """  %claim = getelementptr i64, ptr %header, i64 $CLAIM
  %done = getelementptr i64, ptr %header, i64 $DONE
  %job.function = getelementptr i64, ptr %header, i64 $JOB
  %job.buffers = getelementptr i64, ptr %job.function, i64 1
  %job.units = getelementptr i64, ptr %job.function, i64 2
  %job.chunks = getelementptr i64, ptr %job.function, i64 3"""

_RUN = """define void @kernel(ptr noalias %list, i64 %count, i64 %header.number) nounwind {
entry:
  %header = inttoptr i64 %header.number to ptr
$PLACES
  %most.at = getelementptr i64, ptr %header, i64 $MOST
  %most = load i64, ptr %most.at
  br label %record
record:
  %r = phi i64 [ 0, %entry ], [ %r.next, %record.end ]
  %record.first = mul i64 %r, $RECORD
  %function.at = getelementptr i64, ptr %list, i64 %record.first
  %buffers.at = getelementptr i64, ptr %function.at, i64 1
  %units.at = getelementptr i64, ptr %function.at, i64 2
  %least.at = getelementptr i64, ptr %function.at, i64 3
  %function = load i64, ptr %function.at
  %buffers = load i64, ptr %buffers.at
  %units = load i64, ptr %units.at
  %least = load i64, ptr %least.at
  %kernel = inttoptr i64 %function to ptr
  %table = inttoptr i64 %buffers to ptr
  %fitting = udiv i64 %units, %least
  %too.many = icmp ugt i64 %fitting, %most
  %chunks = select i1 %too.many, i64 %most, i64 %fitting
  %is.shared = icmp ugt i64 %chunks, 1
  br i1 %is.shared, label %share, label %alone
alone:
  call void %kernel(ptr %table, i64 0, i64 %units)
  br label %record.end
share:
  store atomic i64 %function, ptr %job.function monotonic, align 8
  store atomic i64 %buffers, ptr %job.buffers monotonic, align 8
  store atomic i64 %units, ptr %job.units monotonic, align 8
  store atomic i64 %chunks, ptr %job.chunks monotonic, align 8
  store atomic i64 0, ptr %done monotonic, align 8
  %before = load atomic i64, ptr %claim monotonic, align 8
  %number = lshr i64 %before, 32
  %number.next = add i64 %number, 1
  %number.high = shl i64 %number.next, 32
  %offered = or i64 %number.high, %chunks
  store atomic i64 %offered, ptr %claim release, align 8
  br label %take
take:
  %own = phi i64 [ 0, %share ], [ %own, %try ], [ %own.next, %taken ]
  %seen = load atomic i64, ptr %claim acquire, align 8
  %shifted = lshr i64 %seen, 16
  %low = and i64 %shifted, 65535
  %high = and i64 %seen, 65535
  %is.left = icmp ult i64 %low, %high
  br i1 %is.left, label %try, label %wait
try:
  %wanted = add i64 %seen, 65536
  %result = cmpxchg ptr %claim, i64 %seen, i64 %wanted acq_rel monotonic, align 8
  %is.taken = extractvalue { i64, i1 } %result, 1
  br i1 %is.taken, label %taken, label %take
taken:
  %low.next = add i64 %low, 1
  %begin.total = mul i64 %units, %low
  %end.total = mul i64 %units, %low.next
  %begin = udiv i64 %begin.total, %chunks
  %end = udiv i64 %end.total, %chunks
  call void %kernel(ptr %table, i64 %begin, i64 %end)
  %own.next = add i64 %own, 1
  br label %take
wait:
  %waited = phi i64 [ 0, %take ], [ %waited.next, %again ]
  %others = load atomic i64, ptr %done acquire, align 8
  %finished = add i64 %others, %own
  %is.finished = icmp eq i64 %finished, %chunks
  br i1 %is.finished, label %record.end, label %rest
rest:
  $PAUSE
  %waited.next = add i64 %waited, 1
  %patience = and i64 %waited.next, $PATIENCE
  %is.long = icmp eq i64 %patience, 0
  br i1 %is.long, label %offer, label %again
offer:
  $YIELD
  br label %again
again:
  br label %wait
record.end:
  %r.next = add i64 %r, 1
  %more = icmp ult i64 %r.next, %count
  br i1 %more, label %record, label %finish
finish:
  ret void
}
$DECLARED
"""

_WORK = """define void @kernel(ptr %header, i64 %worker, i64 %pauses) nounwind {
entry:
$PLACES
  %phase.at = getelementptr i64, ptr %header, i64 $PHASE
  %own.line = mul i64 %worker, $LINE
  %own.word = add i64 %own.line, $WORKERS
  %own = getelementptr i64, ptr %header, i64 %own.word
  br label %look
look:
  %idle = phi i64 [ 0, %entry ], [ %idle, %try ], [ 0, %taken ], [ %idle.next, %again ]
  %seen = load atomic i64, ptr %claim acquire, align 8
  %shifted = lshr i64 %seen, 16
  %low = and i64 %shifted, 65535
  %high = and i64 %seen, 65535
  %is.left = icmp ult i64 %low, %high
  br i1 %is.left, label %try, label %quiet
try:
  %function = load atomic i64, ptr %job.function monotonic, align 8
  %buffers = load atomic i64, ptr %job.buffers monotonic, align 8
  %units = load atomic i64, ptr %job.units monotonic, align 8
  %chunks = load atomic i64, ptr %job.chunks monotonic, align 8
  %wanted = sub i64 %seen, 1
  %result = cmpxchg ptr %claim, i64 %seen, i64 %wanted acq_rel monotonic, align 8
  %is.taken = extractvalue { i64, i1 } %result, 1
  br i1 %is.taken, label %taken, label %look
taken:
  %chunk = sub i64 %high, 1
  %begin.total = mul i64 %units, %chunk
  %end.total = mul i64 %units, %high
  %begin = udiv i64 %begin.total, %chunks
  %end = udiv i64 %end.total, %chunks
  %kernel = inttoptr i64 %function to ptr
  %table = inttoptr i64 %buffers to ptr
  call void %kernel(ptr %table, i64 %begin, i64 %end)
  %counted = atomicrmw add ptr %done, i64 1 release, align 8
  br label %look
quiet:
  %phase = load atomic i64, ptr %phase.at monotonic, align 8
  %is.stopped = icmp eq i64 %phase, $STOPPED
  br i1 %is.stopped, label %leave, label %stay
stay:
  %idle.next = add i64 %idle, 1
  %is.running = icmp eq i64 %phase, $RUNNING
  %is.patient = icmp ult i64 %idle, %pauses
  %stays = or i1 %is.running, %is.patient
  br i1 %stays, label %rest, label %leave
rest:
  $PAUSE
  %patience = and i64 %idle.next, $PATIENCE
  %is.long = icmp eq i64 %patience, 0
  br i1 %is.long, label %offer, label %again
offer:
  $YIELD
  br label %again
again:
  br label %look
leave:
  store atomic i64 $ASLEEP, ptr %own release, align 8
  ret void
}
$DECLARED
"""
