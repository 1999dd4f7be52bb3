"""A partition as its broker sees it: leader epoch, high watermark, and who waits for them."""
