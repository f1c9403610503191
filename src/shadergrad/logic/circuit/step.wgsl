// One step of a board of bits, 32 cells a thread; export_wgsl.py puts the circuit and its sizes in.
//
// state, next: planes [channels][HEIGHT][ROW_WORDS] of u32; column 32 k + j of a row is bit j of word k, bits past the
// width are 0. Workgroups of 64; threads beyond the board do nothing. No shared memory: neighbouring threads read the
// same words, which caches serve. The definitions up to the dashes stand for the generated part, so this file parses.
const HEIGHT = 4u;
const WIDTH = 40u;
const ROW_WORDS = 2u;
const PERIODIC = true;
fn fired(y: u32, k: u32) -> u32 {
    return 0xffffffffu;
}
// ----
@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read_write> next: array<u32>;

const WORDS = (WIDTH + 31u) / 32u;  // of a row that hold cells; ROW_WORDS is even and may be one more
const LAST = (WIDTH - 1u) % 32u;    // bit of the last column
const OUTSIDE = HEIGHT;             // the row beyond the border

fn word(channel: u32, y: u32, k: u32) -> u32 {
    if (y == OUTSIDE) {
        return 0u;
    }
    return state[(channel * HEIGHT + y) * ROW_WORDS + k];
}

// Each bit becomes its western neighbour.
fn west(channel: u32, y: u32, k: u32) -> u32 {
    var edge = 0u;
    if (k > 0u) {
        edge = word(channel, y, k - 1u) >> 31u;
    } else if (PERIODIC) {
        edge = word(channel, y, WORDS - 1u) >> LAST;
    }
    return (word(channel, y, k) << 1u) | edge;
}

// Each bit becomes its eastern neighbour.
fn east(channel: u32, y: u32, k: u32) -> u32 {
    var edge = 0u;
    if (k + 1u < WORDS) {
        edge = word(channel, y, k + 1u) << 31u;
    } else if (PERIODIC) {
        edge = (word(channel, y, 0u) & 1u) << LAST;
    }
    return (word(channel, y, k) >> 1u) | edge;
}

// Cells that fire take the new bits, the others keep theirs.
fn store(channel: u32, y: u32, k: u32, bits: u32) {
    let at = (channel * HEIGHT + y) * ROW_WORDS + k;
    let inside = select(0xffffffffu, 0xffffffffu >> (31u - LAST), k == WORDS - 1u);
    let old = state[at];
    next[at] = (old ^ ((old ^ bits) & fired(y, k))) & inside;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
    let thread = id.x + id.y * groups.x * 64u;
    let y = thread / WORDS;
    let k = thread % WORDS;
    if (y >= HEIGHT) {
        return;
    }
    let north = select(select(OUTSIDE, HEIGHT - 1u, PERIODIC), y - 1u, y > 0u);
    let south = select(select(OUTSIDE, 0u, PERIODIC), y + 1u, y + 1u < HEIGHT);
    // the circuit
}
