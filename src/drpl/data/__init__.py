"""Images with labels: reading, storing and transforming them, and the algebra of data sets.

May import the modules of the ground (errors, files, randomness, registry) and nothing else of the
package. Every package that handles images may import it; reports import `data.decoding` only.
"""
