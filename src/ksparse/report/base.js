// What all parts share: the data, the state, and how to make elements (text is never HTML).
const data = JSON.parse(document.getElementById("data").textContent);
const state = { colour: "cluster", gene: null, highlight: null };
const listeners = [];
const byId = (id) => document.getElementById(id);
const format = (value, digits = 3) =>
  value === null || value === undefined ? "–" : Number(Number(value).toPrecision(digits)).toLocaleString("en-US", { maximumSignificantDigits: digits });
const whole = (value) => Number(value).toLocaleString("en-US");
const percent = (value, digits = 0) => (value === null ? "–" : (100 * value).toFixed(digits).replace(/^-(0\.?0*)$/, "$1") + " %");

const clusterName = (name) => (/^\d+$/.test(name) ? `${data.noun || "cluster"} ${name}` : name); // users may have renamed them

// Cut in the middle: names of clusters of one group differ at their end.
function shortened(name, most) {
  const letters = Array.from(name), half = (most - 1) / 2;
  return letters.length <= most ? name : letters.slice(0, Math.floor(half)).join("") + "…" + letters.slice(-Math.ceil(half)).join("");
}

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = value;
    else if (name === "on") for (const [event, action] of Object.entries(value)) element.addEventListener(event, action);
    else if (name === "css") Object.assign(element.style, value);
    else element.setAttribute(name, value);
  }
  element.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, action] of Object.entries(value)) element.addEventListener(event, action);
    else element.setAttribute(name, value);
  }
  element.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

function dot(colour) {
  return make("span", { class: "dot", css: { background: colour } });
}

// Change the state and let every part follow.
function change(values) {
  Object.assign(state, values);
  for (const listener of listeners) listener();
}

function bytes(text) {
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}

async function inflate(text) {
  const stream = new Blob([bytes(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const two = (array) => new Uint16Array(array.buffer, array.byteOffset, array.byteLength / 2);

// Colours that differ between light and dark, as lists of red, green and blue.
const theme = {};
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["low", "high", "shade", "minus"]) theme[name] = style.getPropertyValue("--" + name).split(",").map(Number);
}

const ramp = (share) => "rgb(" + theme.low.map((part, i) => Math.round(part + (theme.high[i] - part) * share)).join(",") + ")";
const shade = (name, share) => `rgba(${theme[name].join(",")},${share.toFixed(3)})`;
