"""`python -m drpl` and the command `drpl`."""

import os
import sys

from drpl.errors import DrplError

NO_MEMORY = (  # how torch, threads and the loader of libraries say it
    *("can't allocate memory", "not enough memory", "out of memory", "can't start new thread"),
    *("failed to map segment", "Cannot allocate memory", "could not create a primitive"),
)


def main() -> None:
    """Run the command line; a user's mistake is one sentence and exit code 2."""
    try:
        from drpl.cli import app  # takes a moment, in which Ctrl-C is no traceback either

        for word in sys.argv:
            word.encode()
        app()
        code = 0
    except DrplError as error:
        code = _refuse(str(error))
    except UnicodeEncodeError as error:
        code = _refuse(f"{error.object} is not UTF-8; rename it")
    except OSError as error:  # of a path that the user named, or of the machine
        where = f" ({error.filename})" if error.filename else ""
        code = _refuse(f"{error.strerror or error}{where}")
    except (MemoryError, RuntimeError, ImportError) as error:
        if not isinstance(error, MemoryError) and not any(sign in str(error) for sign in NO_MEMORY):
            raise
        code = _refuse("memory ran out; use smaller images (--size) or fewer of them (--limit)")
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped.\n")
        code = 130
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        from drpl.distributed import leave

        leave(code)
    sys.exit(code)


def _refuse(sentence: str) -> int:
    """Say what is wrong; the exit code of a mistake."""
    from drpl.files import make_printable

    sys.stderr.write(f"error: {make_printable(sentence)}\n")
    return 2


if __name__ == "__main__":
    main()
