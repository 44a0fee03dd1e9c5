"""The workflow inside pictures, recordings and other files that ComfyUI and its savers write.

`kinds` tells by a file's first bytes what it is and which reader takes it; the readers give what the file
holds under the keys that count, and `entries` makes a prompt and a canvas of that.
"""
