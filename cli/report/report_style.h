// The looks of a report.
#pragma once

namespace tilewright::cli {

// Light and dark, from the width of a phone upwards. Nothing is fetched.
inline constexpr const char* kReportStyle = R"(
:root { color-scheme: light dark; --page: #ffffff; --ink: #1c2127; --soft: #56606b; --rule: #d9dee4;
  --best: #1462c4; --trial: #7a858f; --default: #96500a; --failed: #c02b2b; --roof: #1c2127;
  --baseline: #1f7a4d; }
@media (prefers-color-scheme: dark) { :root { --page: #14181d; --ink: #e4e8ec; --soft: #a3aeb9;
  --rule: #313a44; --best: #6aaeff; --trial: #8793a0; --default: #e2a050; --failed: #ff7a7a;
  --roof: #e4e8ec; --baseline: #5cc98d; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 88rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: .5rem 0; }
h2 { font-size: 1.15rem; margin-top: 2.5rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
a { color: var(--best); } p { max-width: 60rem; margin: .5rem 0; overflow-wrap: anywhere; }
code, pre { font: 13px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }
table { border-collapse: collapse; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--rule);
  vertical-align: top; overflow-wrap: anywhere; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap;
  overflow-wrap: normal; }
td.name { min-width: 11rem; max-width: 26rem; } td.wide { min-width: 16rem; }
td.note { min-width: 12rem; white-space: normal; }
th { color: var(--soft); font-weight: 600; }
.scroll { overflow-x: auto; } .soft { color: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr));
  gap: 1rem 1.5rem; align-items: start; }
.charts > * { min-width: 0; }
figure { margin: 0; } figcaption { color: var(--soft); font-size: .9em; }
svg { width: 100%; max-width: 40rem; height: auto; display: block; }
svg text { font: 13px ui-monospace, monospace; fill: var(--soft); }
svg text.words { fill: var(--ink); stroke: var(--page); stroke-width: 3px; paint-order: stroke; }
.grid { stroke: var(--rule); }
.line { fill: none; stroke-width: 2; stroke: var(--trial); }
.line.roof { stroke: var(--roof); stroke-width: 1.5; }
.line.best, .line.winner { stroke: var(--best); }
.line.default { stroke: var(--default); stroke-width: 1; stroke-dasharray: 5 4; }
.line.baseline { stroke: var(--baseline); stroke-width: 1; stroke-dasharray: 2 3; }
.leader { stroke: var(--soft); stroke-width: .6; }
.dot.best { fill: var(--best); } .dot.trial { fill: var(--trial); fill-opacity: .7; }
.dot.default { fill: var(--default); }
.cross { fill: none; stroke: var(--failed); stroke-width: 1.5; }
.bar { display: block; width: 8rem; max-width: 30vw; height: .6rem; margin-top: .45rem;
  background: var(--rule); }
.bar i { display: block; height: 100%; background: var(--best); }
#state { color: var(--soft); }
)";

}  // namespace tilewright::cli
