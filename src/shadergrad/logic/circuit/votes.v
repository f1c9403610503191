// Counts of votes for each class, and the class with the most; put behind a circuit by export_verilog.py, which writes names and sizes.
// The module up to the dashes stands for the circuit, so that this file compiles as it is.
module classifier_gates(input wire [0:0] x, output wire [0:0] y);
    assign y = x;
endmodule
// ----
// label is the class with the most ones among its GROUP outputs, the first of equals; votes has WIDTH bits a class.
module classifier(
    input wire [0:0] x,
    output reg [0:0] label,
    output reg [0:0] votes
);
    localparam INPUTS = 1;
    localparam CLASSES = 1;
    localparam GROUP = 1;
    localparam WIDTH = 1;
    localparam DIGITS = 1;

    wire [CLASSES * GROUP - 1:0] y;
    classifier_gates gates(.x(x), .y(y));

    reg [WIDTH - 1:0] count;
    reg [WIDTH - 1:0] best;
    integer c;
    integer i;
    always @* begin
        label = 0;
        best = 0;
        votes = 0;
        for (c = 0; c < CLASSES; c = c + 1) begin
            count = 0;
            for (i = 0; i < GROUP; i = i + 1)
                count = count + y[c * GROUP + i];
            votes[c * WIDTH +: WIDTH] = count;
            if (count > best) begin
                best = count;
                label = c[DIGITS - 1:0];
            end
        end
    end
endmodule
