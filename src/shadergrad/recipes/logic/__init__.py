"""What the recipes of logic networks share: automata as recipes, their batches, reports, pictures, files, and studies."""
