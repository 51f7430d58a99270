"""Says a picture in words where words can say all of it: a picture of one colour. A policy reads
text alone, and what a text leaves out of a picture, nobody could be asked about.

A picture is data of whoever made the questions. Pillow tells by the first bytes how to read one,
whatever its address calls it, and for some kinds it starts a program that is installed: Ghostscript
for EPS. So only kinds are read that Pillow decodes by itself, and whatever it raises at bytes that
were made to trouble it is no picture.
"""

import base64
import functools
import io

MOST_BYTES = 1 << 20  # of a picture, as it stands in a prompt
MOST_PIXELS = 1 << 22
KINDS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")  # as Pillow names them: those of pages on the web
_HEAD, _MARK = "data:image/", ";base64,"


@functools.lru_cache(maxsize=256)
def words_for(url: str) -> str:
    """`[picture of 100 x 100 pixels, all of colour #ff0000]`; "" for a picture that has more than
    one colour, for one that is not in the URL itself, and for what is no picture.
    """
    head, mark, body = url.partition(_MARK)
    if not head.startswith(_HEAD) or not mark or len(body) > MOST_BYTES:
        return ""
    try:
        return _described(base64.b64decode(body, validate=True))
    except Exception:  # noqa: BLE001  its decoders raise errors of many kinds
        return ""


def _described(data: bytes) -> str:
    from PIL import Image  # a task set with pictures needs Pillow itself

    with Image.open(io.BytesIO(data), formats=KINDS) as picture:
        width, height = picture.size
        if width * height > MOST_PIXELS:
            return ""
        pixels = picture.convert("RGBA")
    if pixels.getcolors(maxcolors=1) is None:
        return ""
    red, green, blue, alpha = pixels.tobytes()[:4]
    if alpha < 255:
        return ""
    return f"[picture of {width} x {height} pixels, all of colour #{red:02x}{green:02x}{blue:02x}]"
