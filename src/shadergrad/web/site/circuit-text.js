// A hardened automaton as C99 and as Verilog. In: its structure and the gates that matter; what is the same for every circuit is
// Python's (`sg.logic.circuit.cell_to_c`, `cell_to_verilog`) and comes along with the page. Out: text.

import { ONE, ZERO } from "./circuit.js";

/** @typedef {import("./circuit.js").Structure} Structure */
/** @typedef {ReturnType<typeof import("./circuit.js").minimized>} Rule */

/** By kind, those that are left after folding; C and Verilog write these operators alike. @type {Record<number, string>} */
const EXPRESSIONS = {
  1: "A & B", 2: "A & ~B", 4: "~A & B", 6: "A ^ B", 7: "A | B", // prettier-ignore
  8: "~(A | B)", 9: "~(A ^ B)", 10: "~B", 11: "A | ~B", 12: "~A", 13: "~A | B", 14: "~(A & B)", // prettier-ignore
};
const BLOCK = 16; // words that a block of the C function holds: any number serves

/** @param {Structure} cell @param {Rule} rule inputs that are read, and a line for each gate */
function parts({ inputs }, { gates, outputs }) {
  const name = (/** @type {number} */ wire) => (wire < inputs ? `x${wire}` : `g${wire - inputs}`);
  const read = new Set([...gates.flatMap(({ a, b }) => [a, b]), ...outputs].filter((wire) => wire >= 0 && wire < inputs));
  const lines = gates.map(({ wire, kind, a, b }) => {
    const value = EXPRESSIONS[kind].replace(/[AB]/g, (letter) => name(letter === "A" ? a : b));
    return { wire: name(wire), value };
  });
  return { name, read: [...read].sort((a, b) => a - b), lines };
}

/** @param {number} wire @param {(wire: number) => string} name @param {string} zero @param {string} one */
const output = (wire, name, zero, one) => (wire === ZERO ? zero : wire === ONE ? one : name(wire));

/** @param {Structure} cell @param {Rule} rule @param {string} template of the step of a board @returns {string} */
export function toC(cell, rule, template) {
  const { name, read, lines } = parts(cell, rule);
  const table = read.map((wire) => {
    const place = Math.floor(wire / cell.channels);
    return `    {${Math.floor(place / 3) - 1}, ${(place % 3) - 1}, ${wire % cell.channels}, ${wire}},`;
  });
  return `/* ${lines.length} gates on 64-bit words, each bit a cell of its own. C99. Made by shadergrad. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { automaton_INPUTS = ${cell.inputs}, automaton_OUTPUTS = ${cell.channels}, automaton_BLOCK = ${BLOCK} };

void automaton_block(const uint64_t (*restrict x)[automaton_BLOCK], uint64_t (*restrict y)[automaton_BLOCK], size_t n)
{
    (void)x;
    for (size_t i = 0; i < n; i++) {
${read.map((wire) => `        const uint64_t x${wire} = x[${wire}][i];`).join("\n")}
${lines.map(({ wire, value }) => `        const uint64_t ${wire} = ${value};`).join("\n")}
${rule.outputs.map((wire, k) => `        y[${k}][i] = ${output(wire, name, "UINT64_C(0)", "~UINT64_C(0)")};`).join("\n")}
    }
}

enum { automaton_PERIODIC = ${Number(cell.border === "periodic")}, automaton_READS = ${read.length} };

/* the inputs that matter: row offset, column offset, channel, input */
static const int automaton_reads[][4] = {
${table.join("\n") || "    {0, 0, 0, 0},"}
};

${template.replaceAll("NAME", "automaton")}`;
}

/**
 * @param {Structure} cell @param {Rule} rule @param {string} template of a cell and of a board
 * @param {number} height @param {number} width @returns {string}
 */
export function toVerilog(cell, rule, template, height, width) {
  const { name, read, lines } = parts(cell, rule);
  const sizes = { HEIGHT: height, WIDTH: width, CHANNELS: cell.channels, PERIODIC: Number(cell.border === "periodic") };
  const grid = Object.entries(sizes).reduce((text, [key, value]) => text.replaceAll(`parameter ${key} = 1`, `parameter ${key} = ${value}`), template);
  return `// ${lines.length} gates. Made by shadergrad.
module automaton_rule(input wire [${cell.inputs - 1}:0] x, output wire [${cell.channels - 1}:0] y);
${read.map((wire) => `    wire x${wire} = x[${wire}];`).join("\n")}
${lines.map(({ wire, value }) => `    wire ${wire} = ${value};`).join("\n")}
${rule.outputs.map((wire, k) => `    assign y[${k}] = ${output(wire, name, "1'b0", "1'b1")};`).join("\n")}
endmodule

${grid}`;
}
