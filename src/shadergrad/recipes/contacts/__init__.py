"""What the recipe of the coevolution transformer and its prediction share."""
