"""The emitter for processors: LLVM IR for the groups of a plan of the cpu device. See README.md."""
