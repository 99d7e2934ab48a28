"""The claims: what the paper says, by which rule a case bears it out, and what measures it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.claims import accuracy, detection, inside, losses, ours
from benchmarks.claims.cases import Found, quote_table
from benchmarks.lookup import Results

GRID = "make paper DATA=data"
MINI = "make mini"
BOTH = f"{GRID}; {MINI}"
INSIDE = "python -m benchmarks.memorised"
HUMANS = "python -m benchmarks.humans --data-dir data"
AREA, PERCENT, SHARE = "AUROC", "accuracy (%)", "share"


@dataclass(frozen=True)
class Claim:
    """A claim, where it is made, and how it is judged."""

    title: str
    where: str  # in the paper
    says: str
    rule: str  # "a case confirms it if ..."
    unit: str  # of the figures
    command: str  # that measures it
    find: Callable[[Results], Found]
    digits: int = 3
    why_not: str = ""  # why it cannot be tried here


LOSSES = (
    Claim(
        "Clean labels are fitted first",
        "premise, Figure 1",
        "While a network is trained by cross-entropy it fits clean labels before noisy ones.",
        "by the epoch in which half of the noisy labels are fitted (or else the last), a larger "
        "share of the clean ones is",
        SHARE,
        INSIDE,
        losses.find_fitted_first,
        2,
    ),
    Claim(
        "Cross-entropy's loss separates less under non-uniform noise",
        "Figure 1",
        "The losses of clean and noisy labels separate clearly under uniform noise, and hardly "
        "under non-uniform noise.",
        "the loss has a lower AUROC under the highest non-uniform level than under uniform noise "
        "of at least that level (the nearest such level, and the highest, as in the figure)",
        AREA,
        BOTH,
        losses.find_parting,
    ),
    Claim(
        "The relabelling loss separates under non-uniform noise",
        "Figure 2",
        "When all labels are replaced by predictions, the loss against the original labels "
        "separates clean from noisy ones under non-uniform noise too.",
        "the loss after stage 1 has a higher AUROC than that of cross-entropy",
        AREA,
        BOTH,
        losses.find_relabelled,
    ),
    Claim(
        "Stage 2 sharpens the loss",
        "Figure 2",
        "Semi-supervised learning from the first split separates the losses further.",
        "the loss after stage 2 has a higher AUROC than after stage 1",
        AREA,
        BOTH,
        losses.find_sharpened,
    ),
    Claim(
        "Stage 1 learns its pseudo-labels",
        "Figure 2, left",
        "Training accuracy with respect to the pseudo-labels becomes high.",
        "after the last epoch of stage 1 it is higher than with respect to the given labels",
        "training accuracy (%)",
        INSIDE,
        losses.find_taught,
        1,
    ),
)
DETECTION = (
    Claim(
        "DRPL finds more than C, M, TS and NL",
        "ROC figure",
        "The ROC curve of DRPL's second stage lies above those of cross-entropy (C), mixup (M), "
        "the two-stage method (TS) and negative learning (NL).",
        "DRPL's AUROC is the highest",
        AREA,
        BOTH,
        detection.find_detection,
    ),
    Claim(
        "DRPL keeps more clean labels than TS and NL",
        "detection table",
        "At its threshold DRPL keeps the largest share of the clean labels (TPR) under every "
        "noise, and few noisy ones (FPR) under all but NU-OOD.",
        "DRPL's TPR is the highest",
        "share kept",
        BOTH,
        detection.find_decision,
        2,
    ),
    Claim(
        "NU-OOD noise is the hardest to detect",
        "detection table",
        "Images from outside that look like the class are missed most often.",
        "DRPL keeps the largest share of the wrong labels under it (FPR at the highest "
        "non-uniform level, and at uniform 40 and 60 %)",
        "FPR",
        BOTH,
        detection.find_hardest,
        2,
    ),
    Claim(
        "NU-OOD noise is the least harmful",
        "ImageNet tables",
        "The noise that is missed most often costs the least accuracy.",
        "mixup, which believes every label, is most accurate under it (at the same levels)",
        PERCENT,
        BOTH,
        detection.find_harmless,
        1,
    ),
)
ACCURACY = (
    Claim(
        "DRPL is first on CIFAR-10",
        "CIFAR-10 table",
        "DRPL is more accurate than eight other methods, except at one level of uniform noise.",
        "its mean over the levels is higher than that of each other method of the paper's table",
        PERCENT,
        GRID,
        accuracy.find_first_cifar,
        1,
    ),
    Claim(
        "DRPL is first under four noises",
        "ImageNet32 and ImageNet64 tables",
        "DRPL is first under each of the four kinds of noise at every level.",
        "its mean over the levels is higher than that of each other method of the paper's tables",
        PERCENT,
        BOTH,
        accuracy.find_first_four,
        1,
    ),
    Claim(
        "There is little gap between best and last",
        "ImageNet and CIFAR tables",
        "DRPL's accuracy after the last epoch is close to its best, unlike that of others.",
        "DRPL's gap is at most one point, or less than half of mixup's",
        PERCENT,
        BOTH,
        accuracy.find_gap,
        1,
    ),
    Claim(
        "Without noise DRPL costs accuracy",
        "ImageNet and CIFAR tables",
        "Where labels are right it sets some of them aside, and falls behind mixup: most on many "
        "classes (100), least on CIFAR-10.",
        "DRPL's best accuracy without noise is below mixup's",
        PERCENT,
        GRID,
        accuracy.find_low_noise,
        1,
    ),
    Claim(
        "The oracle of SSL beats that of forward correction",
        "oracle table",
        "Knowing which labels are wrong is worth more than knowing the noise's matrix.",
        "`oracle_ssl` is more accurate at its best than `oracle_forward`",
        PERCENT,
        BOTH,
        accuracy.find_oracles,
        1,
    ),
)
INSIDE_NETWORKS = (
    Claim(
        "Only the last block degrades",
        "linear probes",
        "Features of other classes: those after the first three blocks stay as good as with clean "
        "labels, those after the last do not, for mixup (M) and DRPL (O).",
        "the probe after block 4 loses something, and at least twice as much as those after blocks "
        "1 to 3 on average; both are compared with mixup on clean labels, and where nothing is "
        "lost the case counts against the claim",
        "accuracy (%) of probes",
        f"{INSIDE}; python benchmarks/probes.py --data imagenet32-mini",
        inside.find_depth,
        1,
    ),
    Claim(
        "Under the most uniform noise all blocks degrade",
        "linear probes",
        "With 80 % uniform noise, the exception to the previous claim, all blocks get worse.",
        "blocks 1 to 3 and block 4 both lose more than two points",
        "accuracy (%) of probes",
        "python benchmarks/probes.py --data imagenet32-mini",
        inside.find_depth_at_most,
        1,
    ),
    Claim(
        "After the last block DRPL's features beat mixup's",
        "linear probes",
        "DRPL's last block transfers better than that of mixup under noise.",
        "the probe after block 4 is more accurate",
        "accuracy (%) of probes",
        f"{INSIDE}; python benchmarks/probes.py --data imagenet32-mini",
        inside.find_last_block,
        1,
    ),
    Claim(
        "The map of a memorised label covers more of the image",
        "class activation maps",
        "Where a noisy label went undetected and was learnt, the map of the wrong class is spread "
        "over more of the image than that of the true one (shown by examples).",
        "for more than half of the wrong labels that were kept, the map of the given label covers "
        "more area (in the upper half of its range) than that of the true one",
        SHARE,
        INSIDE,
        inside.find_maps,
        2,
    ),
)
GPU = "This needs the data set and a GPU."
ELSEWHERE = (
    Claim(
        "DRPL is first on ImageNet64",
        "ImageNet64 table",
        "As on ImageNet32, at every level of the four noises.",
        "",
        "best accuracy (%)",
        "drpl reproduce imagenet64",
        quote_table("imagenet64"),
        2,
        GPU,
    ),
    Claim(
        "DRPL is first on CIFAR-100 under much noise",
        "CIFAR-100 table",
        "From 30 % non-uniform and 40 % uniform noise on. Below that PENCIL is ahead, and mixup "
        "where no label is wrong.",
        "",
        "best accuracy (%)",
        "drpl reproduce cifar100",
        quote_table("cifar100"),
        2,
        GPU,
    ),
    Claim(
        "DRPL is first on WebVision",
        "WebVision table",
        "With the noise of the web, ResNet-18 from scratch, 50 classes.",
        "",
        "best accuracy (%)",
        "drpl reproduce webvision",
        quote_table("webvision"),
        2,
        GPU,
    ),
    Claim(
        "DRPL is level with DivideMix in the setting of DivideMix",
        "text",
        "With Google's images only and Inception-ResNet-v2, as in DivideMix's paper.",
        "",
        "best accuracy (%)",
        "drpl reproduce webvision-google",
        quote_table("webvision-google"),
        2,
        GPU,
    ),
    Claim(
        "About as many of WebVision's labels are found as its authors estimate to be wrong",
        "WebVision gallery",
        "The share that DRPL detects is near the estimate of a fifth; most of what the gallery "
        "shows is from outside.",
        "",
        "share detected",
        "drpl reproduce webvision",
        quote_table("webvision", "flagged"),
        2,
        GPU,
    ),
)
OURS = (
    Claim(
        "DRPL is first on labels that people got wrong",
        "[Human labels](humans.md)",
        "On the same features DRPL ranks wrong labels better than any other detector tried.",
        "its AUROC is higher than that of the best other",
        AREA,
        HUMANS,
        ours.find_human,
    ),
    Claim(
        "The mean loss of both stages ranks as well as the better stage",
        "[Methods](methods.md)",
        "The average of stage 1 and stage 2 ranks wrong labels at least as well as the better one.",
        "its AUROC is at least the higher of the two",
        AREA,
        BOTH,
        ours.find_pooled,
    ),
    Claim(
        "Our additions find more wrong labels",
        "[The grid](paper.md)",
        "With the guard against too few labels and the mean of all stages, DRPL ranks wrong labels "
        "better than in the paper's form.",
        "`drpl` has a higher AUROC than `drpl (literal)`",
        AREA,
        GRID,
        ours.find_more_found,
    ),
    Claim(
        "Our additions make models more accurate",
        "[The grid](paper.md)",
        "With the same additions, the final model is more accurate.",
        "`drpl` is more accurate after its last epoch than `drpl (literal)`",
        PERCENT,
        GRID,
        ours.find_more_accurate,
        1,
    ),
    Claim(
        "From scratch DRPL finds as much as the small loss",
        "[Human labels](humans.md)",
        "On pixels and with as many images shown, its stages rank wrong labels as well as one long "
        "training by cross-entropy (one seed; DRPL has three).",
        "its AUROC is at least that of the small loss, judged in the same way",
        AREA,
        "python -m benchmarks.humans_scratch --data-dir data",
        ours.find_scratch,
    ),
)
GROUPS: Mapping[str, Sequence[Claim]] = {
    "Losses": LOSSES,
    "Detection": DETECTION,
    "Accuracy": ACCURACY,
    "Inside the networks": INSIDE_NETWORKS,
    "Not testable here": ELSEWHERE,
    "Ours": OURS,
}
