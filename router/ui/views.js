// The page's tables.
import { $, ROUTES, badge, bar, bytes, count, duration, h, ms, routeBadge, share } from "/ui/dom.js";

// A name that begins with # heads numbers.
const head = (...names) => h("thead", {}, h("tr", {}, names.map((n) =>
  n.startsWith("#") ? h("th", { scope: "col", class: "number" }, n.slice(1)) : h("th", { scope: "col" }, n))));
const cell = (label, ...content) => h("td", { "data-label": label }, ...content);
const name = (r) => (r.rank === undefined ? r.id ?? r.replica : `${r.id ?? r.replica}/${r.rank}`);

// A replica may have hundreds of adapters.
const modelsOf = (r) => {
  const models = r.models?.length ? r.models : r.model ? [r.model] : [];
  return models.slice(0, 3).join(", ") + (r.model_count > 3 ? ` and ${r.model_count - 3} more` : "");
};

const STATE_KIND = { up: "good", trial: "warn", joining: "warn", draining: "warn", ejected: "bad", gone: "bad" };

export function showReplicas(replicas) {
  const rows = replicas.map((r) => {
    const state = r.state || (r.healthy ? "up" : "down");
    const tokens = r.cached_tokens + r.computed_tokens;
    const slots = r.slots || 0;
    const load = `${r.running} running, ${r.waiting} waiting${slots ? `, ${slots} slots` : ""}`;
    const held = r.cache_capacity_tokens > 0 ? r.cache_held_tokens / r.cache_capacity_tokens : 0;
    const pressure = Math.max(r.kv_usage, held);
    return h("tr", { "data-replica": name(r) },
      h("th", { scope: "row" }, name(r), h("span", { class: "sub", title: (r.models ?? []).join(", ") }, modelsOf(r) || r.http)),
      cell("State", badge(state, STATE_KIND[state] ?? "bad"), h("span", { class: "sub" }, r.healthy ? "" : r.why_unhealthy)),
      cell("In flight", count(r.in_flight)),
      cell("Load", bar(r.running + r.waiting, Math.max(slots, r.running + r.waiting, 1), load, r.waiting > 0 ? "warn" : ""), h("span", { class: "sub" }, load)),
      cell("Memory", pressure > 0 ? bar(pressure, 1, share(pressure, 1), pressure > 0.9 ? "warn" : "") : null, h("span", { class: "sub" }, pressure > 0 ? share(pressure, 1) : "not reported")),
      cell("Reused", bar(r.cached_tokens, tokens, share(r.cached_tokens, tokens), "local"), h("span", { class: "sub" }, `${share(r.cached_tokens, tokens)} of ${count(tokens)} tokens`)),
      cell("Requests", count(r.requests), h("span", { class: "sub" }, ROUTES.map((k) => `${count(r.routed[k])} ${k}`).join(" · "))));
  });
  $("replicas").replaceChildren(head("Replica", "State", "In flight", "Load", "Memory", "Reused", "Requests"), h("tbody", {}, rows));
}

const TIERS = ["device", "host", "disk"];

export function showHolds(status) {
  const tiers = (by) => TIERS.filter((t) => by[t] > 0).map((t) => `${count(by[t])} ${t}`).join(" · ");
  const holders = [
    ...status.replicas.map((r) => ({ id: name(r), blocks: r.blocks_held, kind: "replica", note: tiers(r.blocks_by_tier) })),
    ...status.stores.map((x) => ({ id: `store ${x.address}`, blocks: x.segments, kind: "store", note: x.current ? "" : x.connected ? "still being told" : x.why })),
  ];
  const most = Math.max(1, ...holders.map((x) => x.blocks));
  const list = holders.map((x) => h("div", { class: "hold" },
    h("span", {}, x.id, h("span", { class: "sub" }, x.note)), bar(x.blocks, most, `${count(x.blocks)} ${x.kind === "store" ? "segments" : "blocks"}`, x.kind === "store" ? "remote" : "local"),
    h("span", { class: "number" }, count(x.blocks))));
  $("holds").replaceChildren(...list);
}

export function showInside(status, policies) {
  const rows = [...policies.entries()].sort((a, b) => b[1] - a[1]).map(([policy, n]) =>
    h("tr", {}, h("th", { scope: "row" }, policy, policy === status.default_policy ? h("span", { class: "sub" }, "the default") : null), h("td", {}, count(n))));
  $("inside").replaceChildren(
    h("table", {}, head("Policy", "Recent requests"), h("tbody", {}, rows.length ? rows : h("tr", {}, h("td", { colspan: 2, class: "dim" }, "no request yet")))),
    ...tokenizerView(status.tokenizer));
}

const PARITY = { equal: ["as the engine's", "good"], differs: ["differs: not used", "bad"], not_compared: ["not compared yet", "warn"] };

function tokenizerView(t) {
  const models = t.models.map((m) => h("tr", { "data-model": m.model },
    h("th", { scope: "row" }, m.model === "*" ? "every other" : m.model, h("span", { class: "sub" }, m.chat_template ? "" : "no chat template")),
    h("td", {}, m.library, h("span", { class: "sub" }, m.cuts ? "only what is new" : "every text whole")),
    h("td", {}, badge(...PARITY[m.parity]))));
  const sources = Object.entries(t.prompts).filter(([, n]) => n > 0).map(([source, n]) => `${count(n)} ${source}`);
  const bytesSeen = t.known_prompt_bytes + t.new_prompt_bytes;
  return [
    models.length ? h("table", {}, head("Model", "Tokenizer", "Its tokens"), h("tbody", {}, models)) : h("p", { class: "dim" }, "No tokenizer here: the replicas' agents tokenize."),
    h("p", { id: "tokens", class: "dim" }, [
      `Prompts by source: ${sources.length ? sources.join(" · ") : "none yet"}.`,
      models.length ? `Of their text ${share(t.known_prompt_bytes, bytesSeen)} was known; ${bytes(t.cache_bytes)} of ${bytes(t.cache_max_bytes)} remember it.` : null,
    ].filter(Boolean).join(" ")),
  ];
}

export function showAbout(status) {
  $("about").textContent = `${status.default_policy} · up ${duration(status.uptime_seconds)} · ${status.version}`;
}

export function showTiles(tiles) {
  $("tiles").replaceChildren(...tiles.map(([label, value, note]) =>
    h("div", {}, h("dt", {}, label), h("dd", {}, value, h("span", { class: "sub" }, note ?? "")))));
}

const COSTS = [["total_ms", "Cost"], ["ttft_ms", "TTFT"], ["queue_ms", "Queue"], ["load_ms", "Load"], ["prefill_ms", "Prefill"], ["tail_ms", "Tail"], ["displacement_ms", "Displaces"], ["exploration_ms", "Explores"], ["crowding_ms", "Crowds"]];
const MATCHES = [["device_tokens", "On device"], ["any_tier_tokens", "Any tier"], ["local_tokens", "Used"], ["remote_tokens", "From store"]];

// What every candidate of an attempt would have cost, the chosen one marked.
function attemptView(attempt) {
  const title = h("p", {}, h("strong", {}, name(attempt)), ` by ${attempt.policy}: ${attempt.reason}`, attempt.failure ? ` — failed: ${attempt.failure}` : "");
  if (attempt.candidates.length === 0) return [title, h("p", { class: "dim" }, "This policy does not look at costs.")];
  const rows = attempt.candidates.map((c) => {
    const chosen = name(c) === name(attempt);
    return h("tr", { class: chosen ? "chosen" : null },
      h("th", { scope: "row" }, name(c), chosen ? h("span", { class: "sub" }, "chosen") : null),
      COSTS.map(([key]) => h("td", { class: "number" }, c[key] === undefined ? "–" : c[key].toFixed(c[key] < 10 ? 2 : 0))),
      MATCHES.map(([key]) => h("td", { class: "number" }, c[key] === undefined ? "–" : count(c[key]))));
  });
  return [title, h("div", { class: "scroll" }, h("table", { class: "costs" },
    head("Replica", ...COSTS.map((c) => `#${c[1]} ms`), ...MATCHES.map((m) => `#${m[1]}`)), h("tbody", {}, rows)))];
}

export function explanation(request) {
  const facts = [`${count(request.prompt_tokens)} prompt tokens`, request.store_tokens > 0 ? `${count(request.store_tokens)} in the store` : null,
    `tokenized in ${request.tokenize_ms.toFixed(2)} ms`, request.queued_ms > 0 ? `waited ${ms(request.queued_ms)}` : null,
    request.tenant ? `tenant ${request.tenant}` : null].filter(Boolean);
  return h("div", { class: "explanation" }, h("p", { class: "dim" }, facts.join(" · ")), request.attempts.flatMap(attemptView));
}

// One row of the recent decisions; `open` gets the row's request when its button is pressed.
export function requestRow(r, open) {
  const time = new Date(r.at_ms).toLocaleTimeString("en-GB");
  const button = h("button", { type: "button", class: "open", "aria-expanded": "false" }, r.request_id.slice(0, 12));
  const row = h("tr", { "data-id": r.request_id },
    h("td", {}, time), h("td", {}, button), h("td", {}, r.replica || "–"), h("td", {}, routeBadge(r.route)),
    h("td", { class: "number" }, r.prompt_tokens ? `${count(r.cached_tokens)} / ${count(r.prompt_tokens)}` : r.cached_tokens + r.computed_tokens > 0 ? `${count(r.cached_tokens)} / ${count(r.cached_tokens + r.computed_tokens)}` : "–"),
    h("td", { class: "number" }, ms(r.predicted_ttft_ms)), h("td", { class: "number" }, ms(r.measured_ttft_ms)),
    h("td", { class: "number" }, ms(r.total_ms)),
    h("td", {}, badge(r.status || "–", r.status === 200 ? "good" : "bad"), r.outcome === "done" ? null : h("span", { class: "sub" }, r.outcome)));
  button.addEventListener("click", () => open(r, row, button));
  return row;
}

export const requestHead = () => head("Time", "Request", "Replica", "Route", "#Cached", "#Predicted", "#TTFT", "#Total", "Status");
