// The SQL editor: CodeMirror, with the tables' and columns' names for completion and errors shown at their place.
const WORDS = ("SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT JOIN LEFT ON AND OR NOT EXISTS IN BETWEEN LIKE AS DISTINCT UNION " +
  "ALL EXCEPT INTERSECT CASE WHEN THEN ELSE END COUNT SUM AVG MIN MAX DATE INTERVAL NULL").split(" ");

export class Editor {
  constructor(area, { run, explain }) {
    this.marks = [];
    this.names = WORDS;
    this.editor = CodeMirror.fromTextArea(area, {
      mode: "text/x-sparksql", lineNumbers: true, lineWrapping: true, viewportMargin: 200,
      extraKeys: {
        "Ctrl-Enter": run, "Cmd-Enter": run, "Ctrl-E": explain, "Ctrl-Space": "autocomplete",
        // Tab leaves the editor: it must not trap the keyboard.
        Tab: false, "Shift-Tab": false,
      },
      hintOptions: { completeSingle: false, hint: (editor) => this.complete(editor) },
    });
    this.editor.getInputField().setAttribute("aria-label", "SQL, or a plan as JSON");
    this.editor.on("inputRead", (editor, change) => {
      if (/^[\w.]$/.test(change.text[0] ?? "") && !this.isPlan()) editor.showHint();
    });
    this.editor.on("change", () => this.editor.setOption("mode", this.isPlan() ? "text/plain" : "text/x-sparksql"));
  }

  isPlan() { return this.text().trimStart().startsWith("{"); }
  learn(tables) { this.names = [...new Set([...Object.keys(tables), ...Object.values(tables).flat(), ...WORDS])]; }

  complete(editor) {
    const cursor = editor.getCursor();
    const begun = /[A-Za-z_]\w*$/.exec(editor.getLine(cursor.line).slice(0, cursor.ch))?.[0] ?? "";
    const list = begun ? this.names.filter((n) => n.toLowerCase().startsWith(begun.toLowerCase()) && n !== begun) : [];
    return { list, from: { line: cursor.line, ch: cursor.ch - begun.length }, to: cursor };
  }
  text() { return this.editor.getValue(); }
  // A text that was set by the program and not edited may be replaced.
  set(text) { this.unmark(); this.given = text.trim(); this.editor.setValue(this.given); }
  keep() { this.given = this.text().trim(); }
  untouched() { return this.text().trim() === (this.given ?? ""); }

  mark(line, column) {
    const from = { line: line - 1, ch: column - 1 };
    const word = this.editor.findWordAt(from);
    const to = { line: line - 1, ch: Math.max(word.head.ch, column) };
    this.marks.push(this.editor.markText(from, to, { className: "wrong" }));
    this.editor.addLineClass(line - 1, "background", "wrong-line");
    this.editor.scrollIntoView(from, 40);
  }

  unmark() {
    this.marks.forEach((mark) => mark.clear());
    this.marks = [];
    this.editor.eachLine((line) => this.editor.removeLineClass(line, "background", "wrong-line"));
  }
}
