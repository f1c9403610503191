// Clocked cells and a board of them; put behind a circuit by export_verilog.py, which writes names and sizes.
// The module up to the dashes stands for the circuit, so that this file compiles as it is.
module automaton_rule(input wire [8:0] x, output wire [0:0] y);
    assign y = x[4];
endmodule
// ----
// A cell: its bits, and the circuit that makes the next ones of its 3x3 patch.
// Bit n * CHANNELS + c of patch is channel c of neighbour n, counted row by row from the north-west; 4 is the cell itself.
module automaton_cell #(parameter CHANNELS = 1) (
    input wire clk,
    input wire load,
    input wire fire,
    input wire [CHANNELS - 1:0] initial_state,
    input wire [9 * CHANNELS - 1:0] patch,
    output reg [CHANNELS - 1:0] state
);
    wire [CHANNELS - 1:0] next;
    automaton_rule rule(.x(patch), .y(next));
    always @(posedge clk)
        if (load) state <= initial_state;
        else if (fire) state <= next;
endmodule

// A board of cells. Beyond its border lie zeros, or with PERIODIC = 1 the opposite edge.
module automaton_grid #(
    parameter HEIGHT = 1,
    parameter WIDTH = 1,
    parameter CHANNELS = 1,
    parameter PERIODIC = 1
) (
    input wire clk,
    input wire load,
    input wire [HEIGHT * WIDTH * CHANNELS - 1:0] initial_state,
    input wire [HEIGHT * WIDTH - 1:0] fire,
    output wire [HEIGHT * WIDTH * CHANNELS - 1:0] state
);
    genvar y, x, n;
    generate
        for (y = 0; y < HEIGHT; y = y + 1) begin : rows
            for (x = 0; x < WIDTH; x = x + 1) begin : columns
                localparam CELL = y * WIDTH + x;
                wire [9 * CHANNELS - 1:0] patch;
                for (n = 0; n < 9; n = n + 1) begin : neighbours
                    localparam NY = y + n / 3 - 1;
                    localparam NX = x + n % 3 - 1;
                    localparam INSIDE = NY >= 0 && NY < HEIGHT && NX >= 0 && NX < WIDTH;
                    localparam SOURCE = ((NY + HEIGHT) % HEIGHT) * WIDTH + (NX + WIDTH) % WIDTH;
                    if (PERIODIC || INSIDE)
                        assign patch[n * CHANNELS +: CHANNELS] = state[SOURCE * CHANNELS +: CHANNELS];
                    else
                        assign patch[n * CHANNELS +: CHANNELS] = {CHANNELS{1'b0}};
                end
                automaton_cell #(.CHANNELS(CHANNELS)) cell_at(
                    .clk(clk),
                    .load(load),
                    .fire(fire[CELL]),
                    .initial_state(initial_state[CELL * CHANNELS +: CHANNELS]),
                    .patch(patch),
                    .state(state[CELL * CHANNELS +: CHANNELS])
                );
            end
        end
    endgenerate
endmodule
