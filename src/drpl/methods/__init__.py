"""Methods by name. Each is a module with `Config`, its stages, and `train(run, config)`."""

from drpl.catalogue import Entry

METHODS = {
    "cross_entropy": Entry("drpl.methods.cross_entropy", "plain training on the given labels"),
    "mixup": Entry("drpl.methods.mixup", "training on convex pairs of images and labels"),
    "reed": Entry("drpl.methods.reed", "bootstrapping: labels mixed with the own prediction"),
    "forward": Entry("drpl.methods.forward", "loss correction by an estimated matrix of the noise"),
    "oracle_forward": Entry("drpl.methods.oracle_forward", "loss correction by the true matrix"),
    "gce": Entry("drpl.methods.gce", "generalised cross-entropy, also truncated"),
    "dmi": Entry("drpl.methods.dmi", "mutual information by a determinant"),
    "joint": Entry(
        "drpl.methods.joint", "joint optimisation of weights and labels, then retraining"
    ),
    "bootstrap": Entry(
        "drpl.methods.bootstrap", "mixup that doubts labels by a beta mixture of their losses"
    ),
    "pencil": Entry("drpl.methods.pencil", "labels learnt by gradient, together with the network"),
    "nlnl": Entry("drpl.methods.nlnl", "negative learning: what an image is not, then the trusted"),
    "coteaching": Entry(
        "drpl.methods.coteaching", "two networks that choose each other's easy samples"
    ),
    "drpl": Entry("drpl.methods.drpl", "relabel, split by loss, semi-supervised, split, once more"),
    "dividemix": Entry("drpl.methods.dividemix", "two networks divide the samples for each other"),
    "oracle_ssl": Entry("drpl.methods.oracle_ssl", "the end of drpl, told which labels are wrong"),
}
