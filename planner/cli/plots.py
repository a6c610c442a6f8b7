"""`--plot`: figures of what a command found, as files or on the screen, in the same way for every command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from planner.cli.streams import Screen
    from planner.render.figures.figure import Figure

ENDINGS = (".svg", ".png", ".html", ".txt")
SCREEN = Path("-")

PlotOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Also draw FILE.svg, .png, .html or .txt, or - for the screen; may be given again.",
    ),
]


def kind_option(kinds: Sequence[str]) -> Any:
    """The option that chooses among the figures of a command."""
    return typer.Option(
        "--plot-kind",
        metavar="KIND",
        help=f"Draw only this figure; may be given again: {', '.join(kinds)}.",
    )


@dataclass(frozen=True, slots=True)
class Plots:
    """What to draw, and where to: files, one of them perhaps the screen, and kinds of figures."""

    files: tuple[Path, ...] = ()
    kinds: tuple[str, ...] = ()

    def draw(self, make: Callable[[Any], list[Figure]], document: Any, title: str) -> list[Figure]:
        """The figures of a document, those for files written; none without a `--plot`."""
        if not self.files:
            return []
        figures = make(document)
        self._write(figures, title)
        return figures

    def _write(self, figures: Sequence[Figure], title: str) -> None:
        """Every file, with several figures one below the other; says which kinds have no numbers to be drawn from."""
        from planner.cli.streams import tell

        missing = [kind for kind in self.kinds if kind not in {figure.kind for figure in figures}]
        if missing:
            tell(f"not drawn, for want of numbers: {', '.join(missing)}")
        for file in self.files:
            if figures and file != SCREEN:
                _write(figures, file, title)

    def show(self, figures: Sequence[Figure]) -> None:
        """On the screen, below the report, where that was asked for."""
        from planner.cli.streams import write_result

        def render(screen: Screen) -> str:
            return "\n" + _letters(figures, screen)

        if figures and SCREEN in self.files:
            write_result(render, None)


def check_plots(
    plots: Sequence[Path] | None,
    kinds: Sequence[str] | None,
    offered: Sequence[str],
    *,
    inputs: Sequence[Path] = (),
    out: Path | None = None,
    shape: str = "table",
) -> Plots:
    """What to draw, nothing without a `--plot`. Refuses, before anything is computed, what could not be drawn.

    Raises InputError: every unknown kind, ending or file that cannot be written; a PNG without matplotlib.
    """
    from planner.cli.streams import check_out
    from planner.errors import Fault, InputError
    from planner.files.nearest import did_you_mean

    files = list(plots or ())
    faults = [f'--plot-kind "{kind}": {did_you_mean(kind, offered)}' for kind in kinds or () if kind not in offered]
    if kinds and not files:
        faults.append("--plot-kind: give --plot FILE as well, or --plot - for the screen")
    faults += [fault for plot in files if (fault := _fault(plot, shape, out))]
    if len(set(files)) < len(files) or (out is not None and out in files):
        faults.append("--plot: each file is written once; give another name")
    if faults:
        raise InputError([Fault(text) for text in faults])
    for plot in files:
        if plot != SCREEN:
            check_out(plot, inputs)
    return Plots(tuple(files), tuple(kind for kind in offered if files and (not kinds or kind in kinds)))


def _fault(plot: Path, shape: str, out: Path | None) -> str:
    """Why a file cannot be drawn to, empty when it can."""
    from importlib.util import find_spec

    from planner.files.nearest import did_you_mean

    if plot == SCREEN:
        beside = shape != "table" and out is None
        return f"--plot -: the screen shows the {shape}; give --plot FILE, or --out FILE for it" if beside else ""
    ending = plot.suffix.lower()
    if ending not in ENDINGS:
        near = did_you_mean(ending, ENDINGS) if ending else f"known: {', '.join(ENDINGS)}"
        return f'--plot "{plot}": "{ending}" is no picture; {near}'
    if ending == ".png" and find_spec("matplotlib") is None:
        return f'--plot "{plot}": a PNG needs matplotlib; install planner[plot], or give a file that ends in .svg'
    return ""


def _write(figures: Sequence[Figure], file: Path, title: str) -> None:
    from planner import __version__
    from planner.cli.streams import Screen, write_file
    from planner.render.svg import stacked

    ending = file.suffix.lower()
    if ending == ".txt":
        write_file(_letters(figures, Screen()), file)
    elif ending == ".html":
        from planner.render.figures.page import figures_page

        write_file(figures_page(title, figures, __version__), file)
    else:
        whole = stacked([figure.svg() for figure in figures])
        if ending == ".svg":
            write_file(whole, file)
            return
        from planner.render.png import to_png

        write_file(to_png(whole), file)


def _letters(figures: Sequence[Figure], screen: Screen) -> str:
    lines = [line for figure in figures for line in (*figure.text(screen.pen), "")]
    return screen.pen.finish(lines[:-1])
