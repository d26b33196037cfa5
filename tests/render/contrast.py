"""How readable a colour is on another."""

from didact.render.colour import channels


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours as WCAG 2 defines it, from 1 to 21."""
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    shares = (channel / 255 for channel in channels(colour))
    red, green, blue = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
