"""What each `flo` command prints; `cli.py` names them."""
