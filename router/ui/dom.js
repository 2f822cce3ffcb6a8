// Elements and text. Whatever comes from the router is set as text, never parsed as HTML.

export const $ = (id) => document.getElementById(id);

// h("td", {class: "n"}, "text", child): null and undefined children are left out.
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((c) => c !== null && c !== undefined));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";
export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export const ROUTES = ["local", "remote", "recompute"];

export const count = (n) => Number(n ?? 0).toLocaleString("en-US");

export function ms(value) {
  if (!(value > 0)) return "–";
  if (value >= 10000) return `${(value / 1000).toFixed(1)} s`;
  return `${value.toFixed(value < 10 ? 1 : 0)} ms`;
}

export function share(part, whole) {
  return whole > 0 ? `${Math.round((100 * part) / whole)} %` : "–";
}

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i + 1 < units.length) { n /= 1024; i += 1; }
  return `${i === 0 ? n : n.toFixed(1)} ${units[i]}`;
}

export function duration(seconds) {
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

export function quantile(values, q) {
  if (values.length === 0) return 0;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
}

// A bar with its share as text for those who do not see it.
export function bar(part, whole, label, kind = "") {
  const value = whole > 0 ? Math.min(1, part / whole) : 0;
  const fill = h("span", { class: `fill ${kind}` });
  fill.style.width = `${(100 * value).toFixed(1)}%`;
  return h("span", { class: "bar", role: "img", "aria-label": label, title: label }, fill);
}

export function badge(text, kind) {
  return h("span", { class: `badge ${kind}` }, text);
}

export const routeBadge = (route) => badge(route || "unknown", ROUTES.includes(route) ? route : "none");
