"""The look that all figures share."""

from drpl.report.style import COLOURS, Picture, assign_strokes


def test_colours_and_lines_tell_methods_apart() -> None:
    look = assign_strokes([f"method {k}" for k in range(28)])
    assert len(set(look.values())) == 28
    assert len(set(COLOURS)) == len(COLOURS)


def test_text_is_text_and_takes_the_colour_of_the_page(pictures: list[Picture]) -> None:
    for picture in pictures:
        inside, alone = picture.render_svg(), picture.render_svg(alone=True)
        assert ">Losses" in inside or "<text" in inside
        assert 'aria-label="' in inside
        assert "currentColor" in inside
        assert "prefers-color-scheme:dark" in alone
        assert "prefers-color-scheme" not in inside
        assert "var(" not in alone  # few programs but browsers know it
        assert "http" not in inside.replace("http://www.w3.org/", "")
