"""Detection: from losses to the labels that are probably wrong."""
