"""What a run says: findings in the order they were made, and the first thing that is wrong as an exception."""


class Wrong(Exception):
    """Something was not as promised; the message says exactly what."""


class Report:
    """The findings on one application."""

    def __init__(self, title):
        self.title = title
        self.lines = []

    def note(self, line):
        """Keeps a measured fact for the reader."""
        self.lines.append(f"  {line}")

    def check(self, holds, claim):
        """Keeps a claim that holds; one that does not ends the run."""
        if not holds:
            raise Wrong(claim)
        self.note(f"ok: {claim}")

    def equal(self, what, found, expected):
        """Demands a figure and names both sides if they differ."""
        self.check(found == expected, f"{what}: {found}" + ("" if found == expected else f", expected {expected}"))

    def __str__(self):
        return "\n".join([self.title, *self.lines])
