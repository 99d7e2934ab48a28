"""`python -m drpl` and the command `drpl`."""

import os
import sys

from drpl.errors import DrplError


def main() -> None:
    """Run the command line; a user's mistake is one sentence and exit code 2."""
    from drpl.cli import app

    try:
        app()
        code = 0
    except DrplError as error:
        sys.stderr.write(f"error: {error}\n")
        code = 2
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        from drpl.distributed import leave

        leave(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
