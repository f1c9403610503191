"""An elementwise kernel that overwrites its operands, in LLVM IR: `void kernel(ptr table, i64 begin, i64 end)`, one text for all kernels.

The last vector of a range overlaps the one before, so some elements are computed twice, and the second time must not read the new values. So the
kernel computes A_BLOCK elements at a time into a buffer on the stack, which stays in the cache, and copies them to their place.

The table holds the address of the kernel, that of a description in 64-bit words, and the addresses of the kernel's buffers. The description is the number of
buffers, then for each the bytes of an element if it is overwritten, else 0. At most MOST buffers are overwritten.
"""

from __future__ import annotations

MOST = 8
MOST_BUFFERS = 64
A_BLOCK = 2048  # elements
WIDEST = 8  # bytes of an element
FEWEST = 64  # elements of a block; a shorter rest is added to the last one

TEXT = f"""define void @kernel(ptr noalias %table, i64 %begin, i64 %end) nounwind {{
entry:
  %room = alloca i8, i64 {MOST * (A_BLOCK + FEWEST) * WIDEST}, align 64
  %given = alloca ptr, i64 {MOST_BUFFERS}, align 8
  %kernel = load ptr, ptr %table
  %words.at = getelementptr ptr, ptr %table, i64 1
  %words = load ptr, ptr %words.at
  %buffers = getelementptr ptr, ptr %table, i64 2
  %count = load i64, ptr %words
  %widths = getelementptr i64, ptr %words, i64 1
  br label %block
block:
  %at = phi i64 [ %begin, %entry ], [ %behind, %block.end ]
  %left = sub i64 %end, %at
  %is.last = icmp ult i64 %left, {A_BLOCK + FEWEST}
  %size = select i1 %is.last, i64 %left, i64 {A_BLOCK}
  %behind = add i64 %at, %size
  br label %give
give:
  %g = phi i64 [ 0, %block ], [ %g.next, %give ]
  %used = phi i64 [ 0, %block ], [ %used.next, %give ]
  %g.buffer.at = getelementptr ptr, ptr %buffers, i64 %g
  %g.buffer = load ptr, ptr %g.buffer.at
  %g.width.at = getelementptr i64, ptr %widths, i64 %g
  %g.width = load i64, ptr %g.width.at
  %g.is.over = icmp ne i64 %g.width, 0
  %g.before = mul i64 %at, %g.width
  %g.room.at = sub i64 %used, %g.before
  %g.room = getelementptr i8, ptr %room, i64 %g.room.at
  %g.given = select i1 %g.is.over, ptr %g.room, ptr %g.buffer
  %g.given.at = getelementptr ptr, ptr %given, i64 %g
  store ptr %g.given, ptr %g.given.at
  %g.bytes = mul i64 %g.width, {A_BLOCK + FEWEST}
  %used.next = add i64 %used, %g.bytes
  %g.next = add i64 %g, 1
  %g.more = icmp ult i64 %g.next, %count
  br i1 %g.more, label %give, label %call
call:
  call void %kernel(ptr %given, i64 %at, i64 %behind)
  br label %take
take:
  %t = phi i64 [ 0, %call ], [ %t.next, %take ]
  %t.buffer.at = getelementptr ptr, ptr %buffers, i64 %t
  %t.buffer = load ptr, ptr %t.buffer.at
  %t.width.at = getelementptr i64, ptr %widths, i64 %t
  %t.width = load i64, ptr %t.width.at
  %t.given.at = getelementptr ptr, ptr %given, i64 %t
  %t.given = load ptr, ptr %t.given.at
  %t.offset = mul i64 %at, %t.width
  %t.from = getelementptr i8, ptr %t.given, i64 %t.offset
  %t.to = getelementptr i8, ptr %t.buffer, i64 %t.offset
  %t.bytes = mul i64 %size, %t.width
  call void @llvm.memcpy.p0.p0.i64(ptr %t.to, ptr %t.from, i64 %t.bytes, i1 false)
  %t.next = add i64 %t, 1
  %t.more = icmp ult i64 %t.next, %count
  br i1 %t.more, label %take, label %block.end
block.end:
  %more = icmp slt i64 %behind, %end
  br i1 %more, label %block, label %done
done:
  ret void
}}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
