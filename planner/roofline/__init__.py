"""One engine step on one worker."""
