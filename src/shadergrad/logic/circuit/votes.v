// Counts of votes for each class, and the class with the most; put behind a circuit by export_verilog.py, which writes names and sizes.
// The module up to the dashes stands for the circuit, so that this file compiles as it is.
module classifier_gates(input wire [0:0] x, output wire [0:0] y);
    assign y = x;
endmodule
// ----
// label is the class with the most ones among its GROUP outputs, the first of equals; votes has WIDTH bits a class.
// Functions, as in the circuit: a simulator computes them once for each new x.
module classifier(
    input wire [0:0] x,
    output wire [0:0] label,
    output wire [0:0] votes
);
    localparam CLASSES = 1;
    localparam GROUP = 1;
    localparam WIDTH = 1;
    localparam DIGITS = 1;

    wire [CLASSES * GROUP - 1:0] y;
    classifier_gates gates(.x(x), .y(y));

    // the number of ones
    function [WIDTH - 1:0] ones(input [GROUP - 1:0] v);
        ones = v[0];
    endfunction

    function [DIGITS + CLASSES * WIDTH - 1:0] decide(input [CLASSES * GROUP - 1:0] v);
        reg [WIDTH - 1:0] count;
        reg [WIDTH - 1:0] best;
        reg [DIGITS - 1:0] first;
        reg [CLASSES * WIDTH - 1:0] counts;
        integer c;
        begin
            first = 0;
            best = 0;
            for (c = 0; c < CLASSES; c = c + 1) begin
                count = ones(v[c * GROUP +: GROUP]);
                counts[c * WIDTH +: WIDTH] = count;
                if (count > best) begin
                    best = count;
                    first = c[DIGITS - 1:0];
                end
            end
            decide = {first, counts};
        end
    endfunction

    assign {label, votes} = decide(y);
endmodule
