// What tables share: sorting, text for spreadsheets, files to download, names to copy.
function inOrder(items, value, { sort, down }) {
  const sign = down ? -1 : 1;
  return items.sort((a, b) => {
    const x = value(a, sort), y = value(b, sort);
    return x < y ? -sign : x > y ? sign : a.rank - b.rank;
  });
}

// Columns are { key, title, hint, text, chosen, down (whether it first sorts so) }.
function headRow(columns, order, refill) {
  const row = make("tr");
  for (const { key, title, hint, text, chosen, down } of columns) {
    const sorted = order.sort === key ? (order.down ? "descending" : "ascending") : "none";
    const sort = () => {
      order.down = order.sort === key ? !order.down : Boolean(down);
      order.sort = key;
      refill();
    };
    row.append(make("th", { scope: "col", "aria-sort": sorted, class: [text ? "text" : "", chosen ? "chosen" : ""].join(" ").trim() },
      make("button", { type: "button", "data-column": key, title: hint || title, on: { click: sort } }, shortened(title, 14))));
  }
  return row;
}

const counted = (shown, all) => (shown === all ? `${whole(all)} genes` : `${whole(shown)} of ${whole(all)} genes`);
const groupChip = (index) => make("span", { class: "chip" }, dot(data.clusters[index].colour), make("span", { title: data.clusters[index].name }, shortened(data.clusters[index].name, 18)));

// Text that begins like a formula gets a quote in front, as in the .csv files of the command line.
const FORMULA = /^'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/, NUMBER = /^([+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|nan))$/;
const plainText = (value) => (typeof value === "string" && FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value);
const quoted = (value) => (value === null ? "" : /[",\n\r]/.test(String(value)) ? `"${String(value).replace(/"/g, '""')}"` : String(value));
const csvText = (lines) => lines.map((line) => line.map(plainText).map(quoted).join(",")).join("\r\n") + "\r\n";

function download(name, text) {
  const link = make("a", { download: name, href: URL.createObjectURL(new Blob([text], { type: "text/csv" })) });
  document.body.append(link);
  link.click();
  setTimeout(() => { URL.revokeObjectURL(link.href); link.remove(); }, 1000);
}

async function copyNames(button, names) {
  const text = names.join("\n"), title = "Copy names";
  try { await navigator.clipboard.writeText(text); }
  catch { // a page from a file may have no clipboard: the old way
    const area = make("textarea", { css: { position: "fixed", opacity: 0 } });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = `Copied ${whole(names.length)}`;
  setTimeout(() => { button.textContent = title; }, 1500);
}
