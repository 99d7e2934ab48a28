"""What a person does after a run: look at suspicious labels, decide, write the corrected set."""
