"""`python -m shadergrad` is the command `shadergrad`."""

from .cli import main

if __name__ == "__main__":
    main()
