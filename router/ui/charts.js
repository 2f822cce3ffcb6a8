// The two charts, as SVG that is drawn anew with each piece of news.
import { ROUTES, ms, s } from "/ui/dom.js";

const HEIGHT = 210;
const LEFT = 58, RIGHT = 8, TOP = 8, BOTTOM = 22;
export const WINDOW_S = 120;
export const BUCKET_S = 5;

// Shapes differ too: colours alone do not tell everybody.
function mark(route, x, y) {
  const shape = {
    local: () => s("circle", { cx: x, cy: y, r: 3.4 }),
    remote: () => s("rect", { x: x - 3, y: y - 3, width: 6, height: 6, transform: `rotate(45 ${x} ${y})` }),
    recompute: () => s("path", { d: `M${x} ${y - 4}l4 7h-8z` }),
  }[route];
  const element = shape ? shape() : s("circle", { cx: x, cy: y, r: 2.4 });
  element.setAttribute("class", `mark ${shape ? route : "none"}`);
  return element;
}

export function legendMark(route) {
  return s("svg", { viewBox: "0 0 12 12", class: "key", "aria-hidden": "true" }, mark(route, 6, 6));
}

function frame(host, label) {
  const width = Math.max(260, host.clientWidth);
  const svg = s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label });
  return { svg, width, right: width - RIGHT, bottom: HEIGHT - BOTTOM };
}

function text(content, x, y, anchor) {
  const element = s("text", { x, y, "text-anchor": anchor });
  element.textContent = content;
  return element;
}

function timeAxis({ svg, right, bottom }) {
  for (const ago of [WINDOW_S, 90, 60, 30, 0]) {
    const x = LEFT + (1 - ago / WINDOW_S) * (right - LEFT);
    const anchor = ago === WINDOW_S ? "start" : ago === 0 ? "end" : "middle";
    svg.append(text(ago === 0 ? "now" : `−${ago} s`, x, bottom + 15, anchor));
  }
}

// points: [{at_ms, ttft, route}], times in the router's clock.
export function drawTtft(host, points, now) {
  const seen = points.filter((p) => p.ttft > 0 && now - p.at_ms <= WINDOW_S * 1000);
  const f = frame(host, `Time to first token of ${seen.length} requests in two minutes`);
  const values = seen.map((p) => p.ttft);
  const low = Math.floor(Math.log10(Math.max(0.1, Math.min(1, ...values))));
  const high = Math.max(low + 2, Math.ceil(Math.log10(Math.max(100, ...values))));
  const yOf = (v) => f.bottom - ((Math.log10(v) - low) / (high - low)) * (f.bottom - TOP);
  for (let e = low; e <= high; e += 1) {
    const y = yOf(10 ** e);
    f.svg.append(s("line", { x1: LEFT, x2: f.right, y1: y, y2: y, class: "grid" }));
    f.svg.append(text(ms(10 ** e), LEFT - 6, y + 4, "end"));
  }
  timeAxis(f);
  for (const p of seen) {
    const x = LEFT + (1 - (now - p.at_ms) / (WINDOW_S * 1000)) * (f.right - LEFT);
    const dot = mark(p.route, Math.min(f.right, x), yOf(Math.max(10 ** low, p.ttft)));
    const title = s("title");
    title.textContent = `${p.replica}: ${ms(p.ttft)}, ${p.route || "route unknown"}`;
    dot.append(title);
    f.svg.append(dot);
  }
  host.replaceChildren(f.svg);
  return seen.length;
}

// buckets: [{local, remote, recompute, none}], oldest first, one for BUCKET_S.
export function drawRoutes(host, buckets) {
  const kinds = [...ROUTES, "none"];
  const sum = (b) => kinds.reduce((n, k) => n + b[k], 0);
  const most = Math.max(1, ...buckets.map(sum));
  const total = buckets.reduce((n, b) => n + sum(b), 0);
  const f = frame(host, `${total} requests by route in two minutes`);
  for (const part of [0, 0.5, 1]) {
    const y = f.bottom - part * (f.bottom - TOP);
    f.svg.append(s("line", { x1: LEFT, x2: f.right, y1: y, y2: y, class: "grid" }));
    f.svg.append(text(`${((part * most) / BUCKET_S).toFixed(most < 50 ? 1 : 0)}/s`, LEFT - 6, y + 4, "end"));
  }
  timeAxis(f);
  const step = (f.right - LEFT) / buckets.length;
  buckets.forEach((b, i) => {
    let y = f.bottom;
    for (const kind of kinds) {
      if (b[kind] === 0) continue;
      const height = (b[kind] / most) * (f.bottom - TOP);
      y -= height;
      f.svg.append(s("rect", { x: LEFT + i * step + 1, y, width: Math.max(1, step - 2), height, class: `mark ${kind}` }));
    }
  });
  host.replaceChildren(f.svg);
}
