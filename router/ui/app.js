// Asks /admin/live each second and shows what it says.
import { $, ROUTES, bytes, count, h, ms, quantile, share } from "/ui/dom.js";
import { BUCKET_S, WINDOW_S, drawRoutes, drawTtft, legendMark } from "/ui/charts.js";
import { explanation, requestHead, requestRow, showAbout, showHolds, showInside, showReplicas, showTiles } from "/ui/views.js";

const POLL_MS = 1000;
const KEPT = 2000; // requests in the charts
const ROWS = 50;

let after = 0; // the newest request that was shown
let paused = false;
let earlier = null; // finished requests and when, to make rates
let recent = []; // newest first
const rowsBody = h("tbody");

// Asks the router, with the token that was given, and for one where that is wanted.
async function ask(target, options = {}) {
  const token = sessionStorage.getItem("token");
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  const reply = await fetch(target, { cache: "no-store", ...options, headers });
  if (reply.status === 401) $("token-form").hidden = false;
  return reply;
}

function totalsOf(status) {
  const totals = { requests: 0, cached: 0, computed: 0, in_flight: 0, local: 0, remote: 0, recompute: 0 };
  for (const r of status.replicas) {
    totals.requests += r.requests;
    totals.cached += r.cached_tokens;
    totals.computed += r.computed_tokens;
    totals.in_flight += r.in_flight;
    for (const k of ROUTES) totals[k] += r.routed[k];
  }
  return totals;
}

// Requests by route in each BUCKET_S of the window, from the requests that were told of.
function bucketsOf(now) {
  const buckets = Array.from({ length: WINDOW_S / BUCKET_S }, () => ({ local: 0, remote: 0, recompute: 0, none: 0 }));
  for (const r of recent) {
    const i = buckets.length - 1 - Math.floor((now - r.at_ms) / (BUCKET_S * 1000));
    if (i < 0 || i >= buckets.length) continue;
    buckets[i][ROUTES.includes(r.route) ? r.route : "none"] += 1;
  }
  return buckets;
}

function showNumbers(live, now) {
  const totals = totalsOf(live.status);
  const window = recent.filter((r) => now - r.at_ms <= WINDOW_S * 1000);
  const ttft = window.map((r) => r.measured_ttft_ms).filter((v) => v > 0);
  const errors = window.filter((r) => r.predicted_ttft_ms > 0 && r.measured_ttft_ms > 0)
    .map((r) => Math.abs(r.predicted_ttft_ms - r.measured_ttft_ms));
  const at = performance.now();
  const rate = earlier && at > earlier.at ? (1000 * (live.finished - earlier.finished)) / (at - earlier.at) : 0;
  earlier = { at, finished: live.finished };
  const up = live.status.replicas.filter((r) => r.healthy).length;
  showTiles([
    ["Requests", `${rate.toFixed(rate < 10 ? 1 : 0)}/s`, `${count(live.finished)} in all`],
    ["TTFT, median", ms(quantile(ttft, 0.5)), `p95 ${ms(quantile(ttft, 0.95))}`],
    ["Tokens reused", share(totals.cached, totals.cached + totals.computed), `${count(totals.cached)} of ${count(totals.cached + totals.computed)}`],
    ["In flight", count(totals.in_flight), `${live.status.waiting ? `${count(live.status.waiting)} more wait; ` : ""}${up} of ${live.status.replicas.length} replicas usable`],
    ["Blocks known", count(live.status.index_blocks), `${bytes(live.status.index_bytes)} of memory`],
    ["Prediction off by", ms(quantile(errors, 0.5)), errors.length ? `median of ${errors.length}` : "nothing predicted"],
  ]);
  $("routes-sum").textContent = ROUTES.map((k) => `${count(totals[k])} ${k}`).join(" · ");
}

// Opens or closes the explanation below a row.
async function toggle(request, row, button) {
  const next = row.nextElementSibling;
  if (next?.classList.contains("detail")) {
    next.remove();
    button.setAttribute("aria-expanded", "false");
    return;
  }
  const cell = h("td", { colspan: 9 }, "…");
  row.after(h("tr", { class: "detail" }, cell));
  button.setAttribute("aria-expanded", "true");
  try {
    const reply = await ask(`/admin/explain?id=${encodeURIComponent(request.request_id)}&n=1`);
    const answer = await reply.json();
    cell.replaceChildren(reply.status === 404 ? "The router has forgotten this one."
      : reply.ok ? explanation(answer.requests[0]) : answer.error.message);
  } catch (error) {
    cell.replaceChildren(`The router did not answer: ${error.message}`);
  }
}

function addRows(fresh) {
  for (const r of [...fresh].reverse()) rowsBody.prepend(requestRow(r, toggle));
  let kept = 0;
  for (const row of [...rowsBody.children]) {
    if (!row.classList.contains("detail")) kept += 1;
    if (kept > ROWS && !row.contains(document.activeElement)) row.remove();
  }
}

function show(live) {
  if (live.finished < after) recent = []; // another run of the router
  recent = [...live.requests, ...recent].slice(0, KEPT);
  after = live.finished;
  // The router's clock, as far as its requests show it: this machine's may be off.
  const now = Math.max(Date.now(), ...live.requests.map((r) => r.at_ms));
  const policies = new Map();
  for (const r of recent) policies.set(r.policy, (policies.get(r.policy) ?? 0) + 1);
  showAbout(live.status);
  showNumbers(live, now);
  showReplicas(live.status.replicas);
  showHolds(live.status);
  showInside(live.status, policies);
  drawTtft($("ttft-chart"), recent.map((r) => ({ at_ms: r.at_ms, ttft: r.measured_ttft_ms, route: r.route, replica: r.replica })), now);
  drawRoutes($("routes-chart"), bucketsOf(now));
  addRows(live.requests);
}

function say(text, kind) {
  if ($("connection").textContent === text) return;
  $("connection").textContent = text;
  $("connection").className = kind;
}

async function poll() {
  if (!paused && !document.hidden) {
    try {
      const reply = await ask(`/admin/live?after=${after}`);
      if (reply.status === 401) {
        say("a token is wanted", "warn");
      } else {
        if (!reply.ok) throw new Error(`status ${reply.status}`);
        show(await reply.json());
        say("live", "good");
      }
    } catch (error) {
      say("no answer", "bad");
    }
  }
  setTimeout(poll, POLL_MS);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const text = { "": ["Auto", "as the system"], dark: ["Dark", "dark"], light: ["Light", "light"] }[theme];
  $("theme").textContent = text[0];
  $("theme").setAttribute("aria-label", `Colours: ${text[1]}`);
  localStorage.setItem("theme", theme);
}

$("theme").addEventListener("click", () => {
  const order = ["", "dark", "light"];
  setTheme(order[(order.indexOf(document.documentElement.dataset.theme) + 1) % order.length]);
});

$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  $("pause").textContent = paused ? "Resume" : "Pause";
  if (paused) say("paused", "warn");
});

$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", $("token").value);
  $("token").value = "";
  $("token-form").hidden = true;
});

$("try").addEventListener("submit", async (event) => {
  event.preventDefault();
  const policy = $("try-policy").value;
  try {
    const reply = await ask("/admin/explain", {
      method: "POST",
      headers: { "Content-Type": "application/json", ...(policy ? { "x-ember-policy": policy } : {}) },
      body: $("try-body").value,
    });
    const answer = await reply.json();
    if (!reply.ok) throw new Error(answer.error?.message ?? `status ${reply.status}`);
    const excluded = answer.excluded.map((e) => `${e.replica} (${e.state})`).join(", ");
    $("try-result").replaceChildren(
      answer.tokens === "known" ? "" : h("p", { class: "note" }, `Tokens unknown: ${answer.tokens}`),
      explanation(answer.request),
      excluded ? h("p", { class: "dim" }, `No candidates: ${excluded}`) : "");
  } catch (error) {
    $("try-result").replaceChildren(h("p", { class: "note" }, error.message));
  }
});

setTheme(["dark", "light"].includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "");
$("legend").replaceChildren(...[...ROUTES, "none"].map((k) => h("li", {}, legendMark(k), k === "none" ? "unknown" : k)));
$("requests").replaceChildren(requestHead(), rowsBody);
poll();
