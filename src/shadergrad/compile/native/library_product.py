"""Matrix multiplications by a BLAS library, called from machine code: `void kernel(ptr buffers, i64 begin, i64 end)`. A unit is one call.

The buffers are left, right, result and a description in 64-bit words. Its first words are shared by all calls; each cut of a matrix
has words of its own. The number of units is the batch times the cuts of a matrix.

| word | contents |
|---|---|
| 0 | address of cblas_sgemm or cblas_dgemm |
| 1, 2 | whether left and right are transposed, as CBLAS says it |
| 3, 4, 5 | leading dimensions of left, right and result |
| 6 | length of the contraction |
| 7 | number of cuts of a matrix |
| 8, 9, 10 | batch strides of left, right and result in bytes |
| 11 + CUT c | rows and columns of cut c, and its offsets in left, right and result in bytes |

For matrix times vector (cblas_sgemv, cblas_dgemv) left is the matrix. Words 2 and 6 are unused, 4 and 5 are the strides of the vector and of the
result in elements, and rows and columns are those of the cut in memory order.

Sizes are passed as 64-bit integers, also to libraries with 32-bit ones: the calling conventions of x86-64 and arm64 pass both in the same places,
and no size is negative.
"""

from __future__ import annotations

SHARED = 11  # words
CUT = 5  # words
NOT_TRANSPOSED, TRANSPOSED = 111, 112  # CblasNoTrans, CblasTrans
KINDS = {"float32": "float", "float64": "double"}
_MATRIX = (
    "call void %multiply(i32 101, i32 %left.turn, i32 %right.turn, i64 %rows, i64 %columns, i64 %word6, $KIND 1.0, ptr %left, "
    "i64 %word3, ptr %right, i64 %word4, $KIND 0.0, ptr %result, i64 %word5)"
)
_VECTOR = (
    "call void %multiply(i32 101, i32 %left.turn, i64 %rows, i64 %columns, $KIND 1.0, ptr %left, i64 %word3, ptr %right, "
    "i64 %word4, $KIND 0.0, ptr %result, i64 %word5)"
)


def text_for(dtype: str, of_vector: bool) -> str:
    """The function for float32 or float64, of matrices or of a matrix and a vector."""
    words = {
        "CALL": _VECTOR if of_vector else _MATRIX,
        "SHARED": str(SHARED),
        "CUT": str(CUT),
        "KIND": KINDS[dtype],
        "WORDS": "\n".join(
            f"  %word{k}.at = getelementptr i64, ptr %words, i64 {k}\n  %word{k} = load i64, ptr %word{k}.at"
            for k in range(SHARED)
        ),
    }
    text = _TEXT
    for name, value in words.items():
        text = text.replace(f"${name}", value)
    return text


_TEXT = """define void @kernel(ptr noalias %buffers, i64 %begin, i64 %end) nounwind {
entry:
  %left.first = load ptr, ptr %buffers
  %right.at = getelementptr ptr, ptr %buffers, i64 1
  %right.first = load ptr, ptr %right.at
  %result.at = getelementptr ptr, ptr %buffers, i64 2
  %result.first = load ptr, ptr %result.at
  %words.at = getelementptr ptr, ptr %buffers, i64 3
  %words = load ptr, ptr %words.at
$WORDS
  %multiply = inttoptr i64 %word0 to ptr
  %left.turn = trunc i64 %word1 to i32
  %right.turn = trunc i64 %word2 to i32
  br label %each
each:
  %unit = phi i64 [ %begin, %entry ], [ %unit.next, %each ]
  %matrix = udiv i64 %unit, %word7
  %cut = urem i64 %unit, %word7
  %cut.words = mul i64 %cut, $CUT
  %cut.first = add i64 %cut.words, $SHARED
  %rows.at = getelementptr i64, ptr %words, i64 %cut.first
  %columns.at = getelementptr i64, ptr %rows.at, i64 1
  %left.offset.at = getelementptr i64, ptr %rows.at, i64 2
  %right.offset.at = getelementptr i64, ptr %rows.at, i64 3
  %result.offset.at = getelementptr i64, ptr %rows.at, i64 4
  %rows = load i64, ptr %rows.at
  %columns = load i64, ptr %columns.at
  %left.offset = load i64, ptr %left.offset.at
  %right.offset = load i64, ptr %right.offset.at
  %result.offset = load i64, ptr %result.offset.at
  %left.matrix = mul i64 %matrix, %word8
  %right.matrix = mul i64 %matrix, %word9
  %result.matrix = mul i64 %matrix, %word10
  %left.bytes = add i64 %left.matrix, %left.offset
  %right.bytes = add i64 %right.matrix, %right.offset
  %result.bytes = add i64 %result.matrix, %result.offset
  %left = getelementptr i8, ptr %left.first, i64 %left.bytes
  %right = getelementptr i8, ptr %right.first, i64 %right.bytes
  %result = getelementptr i8, ptr %result.first, i64 %result.bytes
  $CALL
  %unit.next = add i64 %unit, 1
  %more = icmp slt i64 %unit.next, %end
  br i1 %more, label %each, label %done
done:
  ret void
}
"""
