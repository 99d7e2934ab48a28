"""Labels corrupted on purpose: kinds of noise, their texts, manifests and corrupted copies on disk.

May import `data` and the ground. Runs, methods and experiments may import it; reports import
`noise.spec` only, which needs no torch.
"""
