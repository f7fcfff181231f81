"""The style sheet of the pages, and the policy that allows nothing else."""

import base64
import hashlib

STYLE = """
:root {
  --ground: #f2f4f7; --card: #ffffff; --line: #d9dee6; --text: #1b2330; --soft: #566173; --accent: #0b5cad;
  --on-accent: #ffffff; --code: #eef1f5; --critical: #b42318; --warning: #93500a; --info: #175cd3; --resolved: #067647;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0c111d; --card: #161b26; --line: #333741; --text: #f0f2f5; --soft: #a5abb8; --accent: #7db7f5;
    --on-accent: #0c111d; --code: #0c111d; --critical: #fda29b; --warning: #fec84b; --info: #84caff;
    --resolved: #75e0a7;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; padding: 2rem 1rem; background: var(--ground); color: var(--text);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere;
}
main { max-width: 40rem; margin: 0 auto; }
section {
  margin: 0 0 1rem; padding: 1.25rem; background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
}
section.critical { border-top: 4px solid var(--critical); }
section.warning { border-top: 4px solid var(--warning); }
section.info { border-top: 4px solid var(--info); }
section.resolved { border-top: 4px solid var(--resolved); }
.state { margin: 0; font-weight: 600; font-size: .9rem; }
.critical .state { color: var(--critical); }
.warning .state { color: var(--warning); }
.info .state { color: var(--info); }
.resolved .state { color: var(--resolved); }
h1 { margin: .25rem 0 .5rem; font-size: 1.4rem; line-height: 1.25; }
h2 { margin: 0 0 .75rem; font-size: 1.05rem; }
p { margin: .5rem 0 0; }
.soft { color: var(--soft); font-size: .9rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1rem; margin: 1rem 0 0; }
dt { color: var(--soft); }
dd { margin: 0; }
pre { margin: .75rem 0 0; padding: .75rem 1rem; overflow-x: auto; background: var(--code); border-radius: .35rem; }
code { font: .875rem/1.6 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
label { display: block; margin: .75rem 0 0; }
label.choice { display: flex; gap: .5rem; align-items: baseline; color: var(--soft); font-size: .9rem; }
select, input[type=text] {
  display: block; width: 100%; margin: .25rem 0 0; padding: .6rem; font: inherit; color: var(--text);
  background: var(--card); border: 1px solid var(--soft); border-radius: .35rem;
}
button {
  margin: 1rem 0 0; padding: .7rem 1.25rem; font: inherit; font-weight: 600; color: var(--on-accent);
  background: var(--accent); border: 0; border-radius: .35rem; cursor: pointer;
}
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
@media (max-width: 30rem) {
  body { padding: 1rem .75rem; }
  button { width: 100%; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin: 0 0 .5rem; }
}
"""

_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
"""The Content-Security-Policy: nothing is loaded, and the forms go to this origin."""
