"""How the page looks, on light and dark screens and on paper. Light."""

from __future__ import annotations

from collections.abc import Mapping

# Each colour of a part comes with that of letters on it.
LIGHT: Mapping[str, str] = {
    "page": "#ffffff", "ink": "#1b1f24", "muted": "#57606a", "rule": "#d0d7de",
    "panel": "#f4f6f8", "mark": "#b3261e", "line": "#7d8590",
    "device": "#2f6db5", "on-device": "#ffffff",
    "encode": "#a9c9ee", "on-encode": "#10233a",
    "uplink": "#37754f", "on-uplink": "#ffffff",
    "decode": "#f0c39f", "on-decode": "#3d1d08",
    "edge": "#7b51a8", "on-edge": "#ffffff",
    "edge_link": "#cbb8e6", "on-edge_link": "#2a1642",
    "queue": "#646b75", "on-queue": "#ffffff",
    "cloud": "#ab4f19", "on-cloud": "#ffffff",
    "downlink": "#a8d5b8", "on-downlink": "#10301c",
}  # fmt: skip
DARK: Mapping[str, str] = {
    "page": "#14171b", "ink": "#e6e9ed", "muted": "#a0a8b2", "rule": "#353b43",
    "panel": "#1c2127", "mark": "#ff8a80", "line": "#7d8590",
    "device": "#7fb2ee", "on-device": "#0d1a2b",
    "encode": "#35557d", "on-encode": "#e6eefb",
    "uplink": "#7cc596", "on-uplink": "#0b2014",
    "decode": "#7a4a26", "on-decode": "#fbeadd",
    "edge": "#b898e0", "on-edge": "#1e1033",
    "edge_link": "#4f3b73", "on-edge_link": "#efe7fb",
    "queue": "#9aa1ab", "on-queue": "#14171b",
    "cloud": "#eb9a62", "on-cloud": "#2b1204",
    "downlink": "#2f5c42", "on-downlink": "#e1f3e8",
}  # fmt: skip
PARTS = tuple(name.removeprefix("on-") for name in LIGHT if name.startswith("on-"))

# What tells the parts apart where colours do not: width and dashes of a line through them.
HATCHES: Mapping[str, tuple[str, str]] = {
    "encode": ("22", "1 2"),
    "uplink": ("22", "1.5 6"),
    "decode": ("10", "1 2"),
    "edge": ("2", "none"),
    "edge_link": ("22", "4 4"),
    "queue": ("3", "3 5"),
    "downlink": ("10", "1.5 6"),
}

_RULES = """
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);
 font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main,header,nav{max-width:70rem;margin:0 auto;padding:0 1rem}
header{padding-top:1.5rem}
h1{font-size:1.6rem;line-height:1.25;margin:.2rem 0 .6rem;overflow-wrap:anywhere;text-wrap:balance}
h2{font-size:1.2rem;margin:2.6rem 0 .3rem;padding-top:.7rem;border-top:1px solid var(--rule)}
h3{font-size:1rem;margin:1.4rem 0 .3rem}
p{margin:.3rem 0 .8rem;max-width:44rem}
.of,.hint,caption,.figures,.tick,figcaption{color:var(--muted)}
.of{margin:0;overflow-wrap:anywhere}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.1rem 1rem;padding:0;margin:1rem 0 0}
nav a{display:inline-block;padding:.25rem 0}
a{color:inherit;text-underline-offset:.2em;text-decoration-color:var(--line)}
code{font:.86em/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.modes{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.6rem;
 list-style:none;padding:0;margin:1rem 0}
.modes li{border:1px solid var(--rule);border-radius:6px;padding:.5rem .7rem}
.modes .chosen{border:2px solid var(--ink);padding:calc(.5rem - 1px) calc(.7rem - 1px)}
.modes b{display:block;font-size:1.35rem;line-height:1.3;font-variant-numeric:tabular-nums}
.modes span{display:block;font-size:.82rem;color:var(--muted)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;margin:1rem 0}
dt{color:var(--muted)}
dd{margin:0;overflow-wrap:anywhere}
.notes{padding-left:1.1rem;max-width:46rem}
.notes li{margin:.2rem 0;overflow-wrap:anywhere}
.scroll{overflow-x:auto;max-width:100%}
.scroll:focus-visible,a:focus-visible{outline:2px solid var(--device);outline-offset:2px}
table{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums}
.scroll{margin:.9rem 0}
caption{text-align:left;padding:.2rem 0;font-size:.86rem}
th,td{padding:.28rem .6rem;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}
thead th{font-weight:600;vertical-align:bottom;border-bottom:1px solid var(--line)}
tbody th{font-weight:400}
td code,th code{overflow-wrap:normal}
.wrap code{overflow-wrap:anywhere}
td.number,table.figures-table td{text-align:right;white-space:nowrap}
.figures-table thead th{text-align:right;white-space:nowrap}
.figures-table th:first-child{position:sticky;left:0;background:var(--page);text-align:left}
td,tbody th{white-space:nowrap}
.wrap th,.wrap code,.policies th,.policies td:nth-child(2){white-space:normal}
.policies th,.policies td:nth-child(2){min-width:9rem}
.wrap code{display:inline-block;min-width:9rem;max-width:22rem}
.sign{display:inline-block;min-width:1.5em;padding:0 .3em;border:1px solid var(--line);
 border-radius:1em;text-align:center;font-size:.8rem;line-height:1.35;
 font-variant-numeric:tabular-nums}
.sign.chosen{background:var(--ink);color:var(--page);border-color:var(--ink)}
.role{font-size:.76rem;border:1px solid var(--rule);border-radius:3px;padding:0 .35em;
 white-space:nowrap}
.role.best{background:var(--ink);color:var(--page);border-color:var(--ink)}
.role.breaks{border-color:var(--mark);color:var(--mark);white-space:normal;overflow-wrap:anywhere;
 display:inline-block;max-width:17rem}
tbody th .role.breaks{white-space:nowrap}
.rows{list-style:none;margin:.6rem 0 0;padding:0}
.rows li{display:grid;grid-template-columns:1fr auto;gap:0 .6rem;padding:.3rem 0;
 align-items:baseline}
.rows .plot{grid-column:1/-1}
.rows .axis{padding:0 0 .3rem}
.rows .figures{font-size:.86rem;font-variant-numeric:tabular-nums;text-align:right}
.rows .chosen .figures{color:var(--ink);font-weight:600}
.rows strong{color:var(--mark);border-color:var(--mark)}
.sign+code,.rows .figures{white-space:nowrap}
.rows.bands .figures{white-space:normal}
.rows .plot{padding:0}
.legend{display:flex;flex-wrap:wrap;gap:.2rem .9rem;list-style:none;padding:0;margin:.4rem 0;
 font-size:.82rem}
.legend svg{vertical-align:-2px;margin-right:.35em}
svg text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;font-size:12px;
 fill:var(--ink)}
svg.plot{display:block;overflow:visible}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr));gap:1rem 2rem}
.axes{padding:.4rem 1rem 44px 46px;margin-top:.6rem;min-width:0}
.y-title{font-size:12px;color:var(--muted);margin-left:-46px}
svg .tick{fill:var(--muted)}
.axis-line{stroke:var(--line);stroke-width:1}
.grid{stroke:var(--rule);stroke-width:1}
.part{stroke:var(--page);stroke-width:1}
.hatch{stroke-opacity:.38}
svg .on{font-size:11px;paint-order:stroke;stroke-width:4px}
.ours{fill:var(--ink);fill-opacity:.09}
.whisker{stroke:var(--ink);stroke-width:1.5}
.dot{fill:var(--page);stroke:var(--ink);stroke-width:1.5}
.dot.front{fill:var(--device)}
.dot.chosen{fill:var(--ink)}
svg .cross{font-size:17px;fill:var(--mark)}
svg .point-label{font-weight:600;paint-order:stroke;stroke:var(--page);stroke-width:2.5px}
.member{stroke:var(--line);stroke-width:1;fill:none}
.envelope{stroke:var(--device);stroke-width:3;fill:none}
line.crossover{stroke:var(--line);stroke-dasharray:3 3}
line.now{stroke:var(--mark);stroke-width:1.5}
svg .mark.now{fill:var(--mark);font-weight:600}
.beside{display:grid;grid-template-columns:minmax(0,auto) minmax(0,1fr);gap:1rem 2.5rem;
 align-items:start}
svg.network{display:block;margin:0 auto}
.tier{fill-opacity:.1}
.tier.device{fill:var(--device)}.tier.edge{fill:var(--edge)}.tier.cloud{fill:var(--cloud)}
.tier{stroke-width:1}
.tier.device{stroke:var(--device)}.tier.edge{stroke:var(--edge)}.tier.cloud{stroke:var(--cloud)}
svg .tier-name,svg .cut-name{font-weight:600}
.wire{fill:none;stroke:var(--line);stroke-width:1.2}
.box{fill:var(--page);stroke:var(--ink);stroke-width:1}
.box.input,.box.output{stroke-dasharray:3 2}
svg .box-label{font-size:11px}
.cut{stroke:var(--mark);stroke-width:2;stroke-dasharray:7 4}
svg .cut-name{fill:var(--mark)}
svg .crossing{font-size:11px;fill:var(--muted)}
.plate{fill:var(--page);fill-opacity:.85}
footer{max-width:70rem;margin:3rem auto 2rem;padding:0 1rem;color:var(--muted);font-size:.86rem}
@media (min-width:60rem){
 .rows li{grid-template-columns:19rem 1fr 9.5rem;align-items:center}
 .bands li{grid-template-columns:19rem 1fr 14rem}
 .rows .figures{grid-column:3;grid-row:1}
 .rows .plot{grid-column:2;grid-row:1}
}
@media (max-width:59.99rem){.beside{grid-template-columns:minmax(0,1fr)}}
@media (max-width:30rem){dl{column-gap:.7rem;font-size:.94rem}}
@media print{
 @page{margin:12mm}
 *{print-color-adjust:exact;-webkit-print-color-adjust:exact}
 body{font-size:10.5pt}
 nav{display:none}
 h2,h3,caption,.hint{break-after:avoid}
 p,.rows li,.axes,tr,.modes{break-inside:avoid}
 tbody tr:first-child{break-before:avoid}
 .scroll{overflow:visible}
 .figures-table{font-size:6.5pt}
 .figures-table th,.figures-table td{padding:1pt 2pt}
 td,th,tbody th,.figures-table thead th,.figures-table thead .sign+code{white-space:normal}
 .beside{display:block}
 svg.network{width:auto;height:auto;max-width:100%;max-height:225mm;break-inside:avoid}
}
"""


def stylesheet() -> str:
    """Return the page's CSS."""
    fills = "".join(
        f".part.{name}{{fill:var(--{name})}}"
        f"svg .on.{name}{{fill:var(--on-{name});stroke:var(--{name})}}"
        for name in PARTS
    )
    hatches = "".join(
        f".hatch.{name}{{stroke:var(--on-{name});stroke-width:{width};stroke-dasharray:{dashes}}}"
        for name, (width, dashes) in HATCHES.items()
    )
    dark = f"@media screen and (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}"
    return f":root{{{_variables(LIGHT)}}}{dark}{fills}{hatches}{_RULES}"


def _variables(colours: Mapping[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())
