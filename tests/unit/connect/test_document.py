from pathlib import Path

from headwater.connect.document import document


def test_the_page_is_what_the_definitions_say() -> None:
    page = Path(__file__).parents[3] / "docs" / "CONNECT.md"
    assert page.read_text() == document(), "run: python -m headwater.connect.document > docs/CONNECT.md"
