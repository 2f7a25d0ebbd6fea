// The answer, updated in place: rows keep their element by key, so that changes can be highlighted briefly.
const MOMENT = 1200;

export class AnswerTable {
  constructor(table, sorted) {
    [this.head, this.body, this.sorted] = [table.tHead, table.tBodies[0], sorted];
    this.clear();
  }

  clear() {
    this.heading = "";
    this.rows = new Map(); // key → { element, values }
    this.head.replaceChildren();
    this.body.replaceChildren();
  }

  show(seen, looking) {
    const still = JSON.stringify([seen.view, seen.columns, looking.sort, looking.descending]);
    const same = this.same === JSON.stringify([seen.view, looking.filter, looking.size, seen.page, looking.sort, looking.descending]);
    this.same = JSON.stringify([seen.view, looking.filter, looking.size, seen.page, looking.sort, looking.descending]);
    if (this.heading !== still) this.drawHead(seen, looking, still);
    const keys = seen.columns.flatMap((c, i) => (c.key ? [i] : []));
    const found = new Map();
    for (const row of seen.rows) {
      let key = JSON.stringify(keys.length ? keys.map((i) => row[i]) : row);
      for (let copy = 1; found.has(key); copy++) key = `${JSON.stringify(row)} ${copy}`;
      found.set(key, row);
    }
    for (const [key, kept] of this.rows) {
      if (!found.has(key)) {
        this.rows.delete(key);
        this.goes(kept.element, same);
      }
    }
    let before = null;
    for (const [key, values] of found) {
      let kept = this.rows.get(key);
      if (!kept) {
        kept = { element: this.row(values, seen.columns), values };
        this.rows.set(key, kept);
        if (same) this.flash(kept.element, "new");
      } else if (kept.values.join("\u0000") !== values.join("\u0000")) {
        values.forEach((value, i) => {
          if (kept.values[i] !== value) {
            this.fill(kept.element.cells[i], value);
            this.flash(kept.element.cells[i], "changed");
          }
        });
        kept.values = values;
      }
      const wanted = before ? before.nextElementSibling : this.body.firstElementChild;
      if (wanted !== kept.element) this.body.insertBefore(kept.element, wanted);
      before = kept.element;
    }
  }

  drawHead(seen, looking, still) {
    this.heading = still;
    const line = document.createElement("tr");
    for (const column of seen.columns) {
      const cell = document.createElement("th");
      const button = document.createElement("button");
      const chosen = looking.sort === column.name;
      button.type = "button";
      button.textContent = column.name + (chosen ? (looking.descending ? " ▼" : " ▲") : "");
      button.title = `${column.type}; click to sort`;
      button.onclick = () => this.sorted(column.name);
      cell.scope = "col";
      cell.setAttribute("aria-sort", chosen ? (looking.descending ? "descending" : "ascending") : "none");
      if (column.number) cell.className = "number";
      cell.append(button);
      line.append(cell);
    }
    this.head.replaceChildren(line);
    this.body.replaceChildren();
    this.rows = new Map();
  }

  row(values, columns) {
    const line = document.createElement("tr");
    values.forEach((value, i) => {
      const cell = document.createElement("td");
      if (columns[i].number) cell.className = "number";
      this.fill(cell, value);
      line.append(cell);
    });
    return line;
  }

  fill(cell, value) {
    cell.textContent = value === null ? "NULL" : value;
    cell.classList.toggle("null", value === null);
  }

  flash(element, kind) {
    element.classList.remove(kind);
    void element.offsetWidth; // so that the animation begins again
    element.classList.add(kind);
    setTimeout(() => element.classList.remove(kind), MOMENT);
  }

  goes(element, shown) {
    if (!shown || this.body.querySelectorAll(".gone").length > 20) { element.remove(); return; }
    element.className = "gone";
    setTimeout(() => element.remove(), MOMENT / 2);
  }
}
