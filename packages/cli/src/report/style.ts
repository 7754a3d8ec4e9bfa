/** Style of the report: restrained type, thin lines, tabular figures; light, dark and print. */
import { html } from "./markup.ts";

/** The content of the page's style element. */
export const reportStyle = html`
:root{color-scheme:light dark;--bg:#fff;--ink:#15181e;--soft:#5b6472;--rule:#e3e6eb;--grid:#eef0f3;--c1:#2457c5;--c2:#0b8073;--c3:#a3660a;--c4:#7a46b8;--faint:#b4bcc8;--bad:#c0272d}
@media (prefers-color-scheme:dark){:root{--bg:#101318;--ink:#e7eaef;--soft:#98a1b0;--rule:#2a303a;--grid:#1d222a;--c1:#7ba6ff;--c2:#4cc9b6;--c3:#e0a84a;--c4:#bd93f2;--faint:#4a5362;--bad:#ff7b78}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1120px;padding:48px 40px 64px;background:var(--bg);color:var(--ink);font:14px/1.5 Inter,ui-sans-serif,system-ui,"Segoe UI","Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums;-webkit-font-smoothing:antialiased}
.status{display:flex;flex-wrap:wrap;gap:4px 14px;margin:0 0 28px;padding:10px 14px;border-left:4px solid var(--faint);background:var(--grid);overflow-wrap:anywhere}
.status.running{border-color:var(--c1)}.status.done{border-color:var(--c2)}.status.stopped,.status.interrupted{border-color:var(--c3)}.status.failed{border-color:var(--bad)}.status.failed strong{color:var(--bad)}
.status .why{flex-basis:100%;min-width:0;color:var(--soft)}.status.failed .why{color:var(--ink)}
header{display:flex;justify-content:space-between;align-items:baseline;gap:24px;flex-wrap:wrap}
h1{margin:0;font-size:26px;font-weight:600;letter-spacing:-.02em;overflow-wrap:anywhere}
h2{margin:0 0 2px;font-size:14px;font-weight:600;letter-spacing:-.005em}
.lede,.sub,.none{margin:0;color:var(--soft)}
.sub,.none{font-size:12.5px}
code,pre,.mono{font-family:ui-monospace,"SF Mono","JetBrains Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:12px}
.hash{overflow-wrap:anywhere}
.figures{display:grid;grid-template-columns:repeat(6,1fr);margin:28px 0 0;padding:0;border-top:1px solid var(--ink);border-bottom:1px solid var(--rule)}
.figures div{padding:14px 16px 16px 0}
.figures dt{color:var(--soft);font-size:12px}
.figures dd{margin:2px 0 0;font-size:24px;font-weight:600;letter-spacing:-.025em;line-height:1.2}
.figures dd small{display:block;margin-top:3px;color:var(--soft);font-size:12px;font-weight:400;letter-spacing:0}
.bad{color:var(--bad)}
section{margin-top:40px}
.pair{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);column-gap:40px}
.head{display:flex;justify-content:space-between;align-items:baseline;gap:4px 16px;flex-wrap:wrap;margin-bottom:8px}
.key{display:flex;gap:4px 16px;color:var(--soft);font-size:12px;flex-wrap:wrap}
.key i{display:inline-block;width:14px;height:3px;border-radius:2px;margin-right:6px;vertical-align:middle;background:var(--faint)}
.key i.dot{width:8px;height:8px;border-radius:50%;border-width:2px;border-style:solid}
.key .c1{background:var(--c1);border-color:var(--c1)}.key .c2{background:var(--c2);border-color:var(--c2)}.key .c3{background:var(--c3);border-color:var(--c3)}.key .c4{background:var(--c4);border-color:var(--c4)}.key .m{background:var(--bad)}
.key i.dot{background:var(--bg)}
svg{display:block;width:100%;height:auto;overflow:visible}
@media screen{svg[viewBox^="0 0 1040"]{min-width:720px}}
svg text{fill:var(--soft);font-size:11px;font-family:inherit}
svg .name{fill:var(--ink);font-size:11.5px}
.grid{stroke:var(--grid)}.axis{stroke:var(--faint)}
.line{fill:none;stroke-width:1.75;stroke-linejoin:round;stroke-linecap:round}
.line.faint{stroke-width:1}
.line.c1{stroke:var(--c1)}.line.c2{stroke:var(--c2)}.line.c3{stroke:var(--c3)}.line.c4{stroke:var(--c4)}.line.faint{stroke:var(--faint)}
.area.c1{fill:var(--c1)}.area.c2{fill:var(--c2)}.area.c3{fill:var(--c3)}.area.c4{fill:var(--c4)}.area.faint{fill:var(--faint)}
.dots circle{fill:var(--bg);stroke-width:2}
.dots.c1{stroke:var(--c1)}.dots.c2{stroke:var(--c2)}.dots.c3{stroke:var(--c3)}.dots.c4{stroke:var(--c4)}.dots.faint{stroke:var(--faint)}
.dots{stroke:var(--faint)}
g.c1 rect{fill:var(--c1)}g.c2 rect{fill:var(--c2)}g.c3 rect{fill:var(--c3)}g.faint rect{fill:var(--faint)}
rect{opacity:.8}
.death{stroke:var(--bad);stroke-width:2;stroke-linecap:round;fill:none}
.mark line{stroke:var(--bad);stroke-width:.75;opacity:.35}.mark path,.mark circle{fill:var(--bad)}
.mark .window{fill:var(--bad);opacity:.07}
.at .hit{fill:transparent;opacity:1}.at line{stroke:var(--soft);stroke-width:1}.at text{fill:var(--ink);paint-order:stroke;stroke:var(--bg);stroke-width:4px;stroke-linejoin:round}
.at line,.at text{visibility:hidden}.at:hover line,.at:hover text{visibility:visible}
.scroll{overflow-x:auto}
table{width:100%;border-collapse:collapse;font-size:13px}
th,td{padding:7px 16px 7px 0;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}
th{color:var(--soft);font-size:12px;font-weight:500;white-space:nowrap}
td.n,th.n{text-align:right;white-space:nowrap}
td.d{overflow-wrap:anywhere;min-width:96px}
td:last-child,th:last-child{padding-right:0}
.held span{display:inline-block;margin-right:14px}.held b{font-weight:500;color:var(--ink)}
.samples{display:grid;grid-template-columns:1fr 1fr;column-gap:40px}
article{min-width:0;padding:12px 0;border-top:1px solid var(--rule)}
article pre{padding:4px 0 0;white-space:pre-wrap;overflow-wrap:anywhere}article .prompt{color:var(--soft)}article p{margin:4px 0 0}
.ledger{width:auto;border-top:1px solid var(--rule)}
.ledger td,.ledger th{text-align:right;white-space:nowrap;padding:8px 22px 8px 0}
.ledger .sum td{font-size:20px;font-weight:600;letter-spacing:-.02em;border-bottom:0;padding-bottom:0}
.ledger .sum .op{color:var(--soft);font-weight:400}
.ledger .sum .op.bad{color:var(--bad)}
.ledger .share td{color:var(--soft);font-size:12px;padding-top:0}
.config{columns:2;column-gap:40px;border-top:1px solid var(--rule);border-bottom:1px solid var(--rule);padding-bottom:14px}
pre{margin:0;padding-top:14px;overflow-x:auto;line-height:1.55;break-inside:avoid}
footer{margin-top:48px;color:var(--soft);font-size:12px}
@media screen and (max-width:900px){body{padding:28px 20px}td.d{min-width:180px}.figures{grid-template-columns:repeat(2,1fr)}.pair,.samples{grid-template-columns:minmax(0,1fr)}.config{columns:1}}
@media screen and (max-width:560px){svg[viewBox^="0 0 500"] text{font-size:14px}svg[viewBox^="0 0 500"] .at text{font-size:13px}}
@media print{.places{display:none}}
@media print{:root{color-scheme:light;--bg:#fff;--ink:#15181e;--soft:#5b6472;--rule:#d5d9df;--grid:#eef0f3;--c1:#2457c5;--c2:#0b8073;--c3:#a3660a;--c4:#7a46b8;--faint:#b4bcc8;--bad:#c0272d}body{max-width:none;padding:0;font-size:11px}section,tr,svg{break-inside:avoid}*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
@page{margin:16mm}
`;
