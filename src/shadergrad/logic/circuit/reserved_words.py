"""Words that a module in Verilog, or a function in WGSL, may not be named.

Sources: IEEE 1364-2005, Annex B; IEEE 1800-2017, Annex B, because most tools read Verilog as SystemVerilog; W3C, WebGPU Shading
Language, sections 2.5 (Keywords) and 15.1 (Reserved Words), and the types that the function itself uses.
"""

from __future__ import annotations

_VERILOG = """
always and assign automatic begin buf bufif0 bufif1 case casex casez cell cmos config deassign default defparam design disable
edge else end endcase endconfig endfunction endgenerate endmodule endprimitive endspecify endtable endtask event for force
forever fork function generate genvar highz0 highz1 if ifnone incdir include initial inout input instance integer join large
liblist library localparam macromodule medium module nand negedge nmos nor noshowcancelled not notif0 notif1 or output parameter
pmos posedge primitive pull0 pull1 pulldown pullup pulsestyle_ondetect pulsestyle_onevent rcmos real realtime reg release repeat
rnmos rpmos rtran rtranif0 rtranif1 scalared showcancelled signed small specify specparam strong0 strong1 supply0 supply1 table
task time tran tranif0 tranif1 tri tri0 tri1 triand trior trireg unsigned use uwire vectored wait wand weak0 weak1 while wire
wor xnor xor
"""
_SYSTEM_VERILOG = """
accept_on alias always_comb always_ff always_latch assert assume before bind bins binsof bit break byte chandle checker class
clocking const constraint context continue cover covergroup coverpoint cross dist do endchecker endclass endclocking endgroup
endinterface endpackage endprogram endproperty endsequence enum eventually expect export extends extern final first_match
foreach forkjoin global iff ignore_bins illegal_bins implements implies import inside int interconnect interface intersect
join_any join_none let local logic longint matches modport nettype new nexttime null package packed priority program property
protected pure rand randc randcase randsequence ref reject_on restrict return s_always s_eventually s_nexttime s_until
s_until_with sequence shortint shortreal soft solve static string strong struct super sync_accept_on sync_reject_on tagged this
throughout timeprecision timeunit type typedef union unique unique0 until until_with untyped var virtual void wait_order weak
wildcard with within
"""
_ICARUS = "bool wone wreal"  # Icarus Verilog's own, in every mode
_WGSL_KEYWORDS = """
alias break case const const_assert continue continuing default diagnostic discard else enable false fn for if let loop override
requires return struct switch true var while
"""
_WGSL_RESERVED = """
NULL Self abstract active alignas alignof as asm asm_fragment async attribute auto await become cast catch class co_await
co_return co_yield coherent column_major common compile compile_fragment concept const_cast consteval constexpr constinit crate
debugger decltype delete demote demote_to_helper do dynamic_cast enum explicit export extends extern external fallthrough filter
final finally friend from fxgroup get goto groupshared highp impl implements import inline instanceof interface layout lowp
macro macro_rules match mediump meta mod module move mut mutable namespace new nil noexcept noinline nointerpolation
non_coherent noncoherent noperspective null nullptr of operator package packoffset partial pass patch pixelfragment precise
precision premerge priv protected pub public readonly ref regardless register reinterpret_cast require resource restrict self
set shared sizeof smooth snorm static static_assert static_cast std subroutine super target template this thread_local throw
trait try type typedef typeid typename typeof union unless unorm unsafe unsized use using varying virtual volatile wgsl where
with writeonly yield
"""
_WGSL_TYPES = "array u32"

RESERVED = {
    "Verilog": frozenset(f"{_VERILOG} {_SYSTEM_VERILOG} {_ICARUS}".split()),
    "WGSL": frozenset(f"{_WGSL_KEYWORDS} {_WGSL_RESERVED} {_WGSL_TYPES}".split()),
}
