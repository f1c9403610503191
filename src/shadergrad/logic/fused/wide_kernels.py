"""The WGSL of wide.py: bodies for layers of given sizes. In: sizes. Out: texts, and their numbers of workgroups."""

from __future__ import annotations

from functools import reduce

from ...extend import Shader
from .. import gates

THREADS = 256
GATES, SLICES = 32, 8  # of a workgroup that sums over rows: GATES neighbours share the lines that they read of g
FILLED = (
    1 << 16
)  # threads that fill a large GPU; with more work a thread takes several rows, and reads wires and parameters once
ENOUGH_GROUPS, FEWEST_ROWS = 128, 64  # workgroups below which the rows are divided, too, and rows of a part

Text = tuple[str, int]  # a body, its workgroups


def shader(body: str, groups: int, preamble: str, flops: int) -> Shader:
    """A shader of THREADS threads a workgroup."""
    return Shader(body, THREADS, groups, preamble, flops=flops)


def preamble(softmax: bool) -> str:
    """`coefficients_of(gate)`: the four coefficients, read, or computed from logits. With softmax also `weights_of(gate, weights)`: the
    sixteen exponentials, not normalized; it gives their sum."""
    if not softmax:
        reads = ", ".join(f"parameters[4 * gate + {k}]" for k in range(4))
        return f"fn coefficients_of(gate: i32) -> vec4<f32> {{ return vec4<f32>({reads}); }}\n"
    corners = [[k for k in range(gates.GATES) if gates.TABLES[k, corner]] for corner in range(4)]
    sums = "\n".join(f"  let f{c} = {' + '.join(f'w[{k}]' for k in rows)};" for c, rows in enumerate(corners))
    each = range(gates.GATES)  # unrolled, so that the weights stay in registers
    reads = "\n".join(f"  let p{k} = parameters[at + {k}];" for k in each)
    top = reduce(lambda x, k: f"max({x}, p{k})", each[1:], "p0")
    exponentials = "\n".join(f"  let e{k} = exp(p{k} - top);\n  (*w)[{k}] = e{k};" for k in each)
    total = " + ".join(f"e{k}" for k in each)
    return f"""fn weights_of(gate: i32, w: ptr<function, array<f32, {gates.GATES}>>) -> f32 {{
  let at = {gates.GATES} * gate;
{reads}
  let top = {top};
{exponentials}
  return {total};
}}
fn mixed(w: array<f32, {gates.GATES}>, total: f32) -> vec4<f32> {{
{sums}
  return vec4<f32>(f0, f2 - f0, f1 - f0, f0 - f1 - f2 + f3) / total;
}}
fn coefficients_of(gate: i32) -> vec4<f32> {{
  var w: array<f32, {gates.GATES}>;
  let total = weights_of(gate, &w);
  return mixed(w, total);
}}
"""


def sums_preamble(softmax: bool) -> str:
    """The preamble of `sums_body`."""
    return (preamble(True) if softmax else "") + f"var<workgroup> slices: array<vec4<f32>, {THREADS}>;\n"


def values_body(rows: int, n_in: int, n_out: int) -> Text:
    """The values of all gates: a thread computes one gate for some rows."""
    each = min(32, -(-rows * n_out // FILLED))
    blocks = -(-rows // each)
    body = f"""let t = wg * {THREADS} + i32(lid);
if (t < {n_out * blocks}) {{
  let gate = t % {n_out};
  let first = t / {n_out} * {each};
  let wire_a = wires[gate];
  let wire_b = wires[{n_out} + gate];
  let c = coefficients_of(gate);
  for (var row = first; row < min(first + {each}, {rows}); row++) {{
    let a = x[row * {n_in} + wire_a];
    let b = x[row * {n_in} + wire_b];
    result[row * {n_out} + gate] = c.x + c.y * a + (c.z + c.w * a) * b;
  }}
}}"""
    return body, -(-n_out * blocks // THREADS)


def input_gradient(rows: int, n_in: int, n_out: int) -> Text:
    """The gradient of x: a thread sums over the readers of one input, for some rows at once, so that their parameters are read once."""
    each = min(16, rows, -(-rows * n_in // FILLED))
    blocks = -(-rows // each)
    starts = "\n".join(f"  let row{k} = min(first + {k}, {rows - 1});\n  var sum{k} = 0.0;" for k in range(each))
    adds = "\n".join(
        f"    sum{k} += g[row{k} * {n_out} + gate] * (own + both * x[row{k} * {n_in} + other]);" for k in range(each)
    )
    stores = "\n".join(
        f"  if (first + {k} < {rows}) {{ result[row{k} * {n_in} + input] = sum{k}; }}" for k in range(each)
    )
    body = f"""let t = wg * {THREADS} + i32(lid);
if (t < {n_in * blocks}) {{
  let input = t % {n_in};
  let first = t / {n_in} * {each};
{starts}
  for (var at = starts[input]; at < starts[input + 1]; at++) {{
    let read = order[at];
    let is_b = read >= {n_out};
    let gate = select(read, read - {n_out}, is_b);
    let other = wires[select({n_out} + gate, gate, is_b)];
    let c = coefficients_of(gate);
    let own = select(c.y, c.z, is_b);
    let both = c.w;
{adds}
  }}
{stores}
}}"""
    return body, -(-n_in * blocks // THREADS)


def parts_of(rows: int, n_out: int) -> int:
    """The number of parts into which sums divide the rows: more if there are few gates."""
    groups = -(-n_out // GATES)
    return 1 if groups >= ENOUGH_GROUPS else max(1, min(-(-2 * ENOUGH_GROUPS // groups), rows // FEWEST_ROWS))


def sums_body(rows: int, n_in: int, n_out: int, parts: int, store: str) -> Text:
    """Sums over rows of g, g a, g b and g a b: a workgroup has GATES gates, and SLICES threads for each, which add in a fixed order.

    store: statements for `sum` of `gate`, whose place is `part_gate`.
    """
    groups = -(-n_out // GATES)
    share = -(-rows // parts)
    body = f"""let part = wg / {groups};
let gate = wg % {groups} * {GATES} + i32(lid) % {GATES};
let slice = i32(lid) / {GATES};
var own = vec4<f32>();
if (gate < {n_out}) {{
  let wire_a = wires[gate];
  let wire_b = wires[{n_out} + gate];
  for (var row = part * {share} + slice; row < min((part + 1) * {share}, {rows}); row += {SLICES}) {{
    let a = x[row * {n_in} + wire_a];
    let b = x[row * {n_in} + wire_b];
    own += g[row * {n_out} + gate] * vec4<f32>(1.0, a, b, a * b);
  }}
}}
slices[lid] = own;
workgroupBarrier();
if (slice == 0 && gate < {n_out}) {{
  var sum = own;
  for (var k = 1; k < {SLICES}; k++) {{ sum += slices[i32(lid) + k * {GATES}]; }}
  let part_gate = part * {n_out} + gate;
{store}
}}"""
    return body, groups * parts


def write_logits() -> str:
    """Statements: the gradient of `gate`'s logits from `sum`, the coefficients' gradient."""
    each = "\n".join(
        f"  result[{gates.GATES} * gate + {k}] = w[{k}] / total * ({_dot(k)} - mean);" for k in range(gates.GATES)
    )
    return f"""  var w: array<f32, {gates.GATES}>;
  let total = weights_of(gate, &w);
  let mean = dot(mixed(w, total), sum);
{each}"""


def _dot(kind: int) -> str:
    c = ", ".join(f"{value:.1f}" for value in gates.COEFFICIENTS[kind])
    return f"dot(vec4<f32>({c}), sum)"
