"""Figures and pages made from run folders, without torch.

It imports the ground and the reading half of `runs`; analysis, experiments, cleaning and the
command line import it. `drpl.report` is the public function too, so the package can be called:

    drpl.report([result], "report.html")
"""

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """Importing a sub-module would otherwise hide the function of the same name."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from drpl.report.page import report

        return report(*arguments, **options)


sys.modules[__name__].__class__ = _CallablePackage
