// What pages can do beyond reading. Every page works without it.
"use strict";
(() => {
  const said = document.getElementById("said");
  const say = (text) => { if (said) said.textContent = text; };

  // Copy buttons. On plain HTTP there is no clipboard: the text is selected instead.
  const select = (button) => {
    const before = button.previousElementSibling || button.parentElement;
    const range = document.createRange();
    range.selectNodeContents(before);
    const all = getSelection();
    all.removeAllRanges();
    all.addRange(range);
    return "press Ctrl+C";
  };
  const copy = async (button) => {
    let done = "Copied";
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      done = select(button);
    }
    button.textContent = done;
    say(done);
    setTimeout(() => { button.textContent = "Copy"; }, 3000);
  };
  for (const button of document.querySelectorAll(".copy")) {
    button.classList.add("on");
    const row = button.closest("tr, dd, .cmd, p");
    const label = row && (row.querySelector("th, pre") || row.previousElementSibling);
    if (label) button.setAttribute("aria-label", "Copy: " + (label.getAttribute("aria-label") || label.textContent).trim().slice(0, 80));
    button.addEventListener("click", () => copy(button));
  }

  // On a phone the rows of a table are cards: each cell shows the head of its column, and
  // the roles keep it a table for screen readers, however it is displayed.
  for (const table of document.querySelectorAll(".scroll > table")) {
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.querySelector(".away") ? "" : cell.textContent);
    const set = (nodes, role) => { for (const node of nodes) node.setAttribute("role", role); };
    set([table], "table");
    set([table.tHead, ...table.tBodies], "rowgroup");
    set(table.rows, "row");
    set(table.querySelectorAll("thead th"), "columnheader");
    set(table.querySelectorAll("tbody th"), "rowheader");
    set(table.querySelectorAll("td"), "cell");
    for (const cell of table.querySelectorAll("td")) if (cell.colSpan === 1) cell.dataset.label = heads[cell.cellIndex] || "";
  }
  for (const time of document.querySelectorAll("time")) time.title = time.dateTime.replace("T", " ").replace("Z", " UTC");
  for (const entry of document.querySelectorAll(".badges span")) {
    const [badge, text] = entry.childNodes;
    for (const same of document.querySelectorAll(".words b")) if (same.textContent === badge.textContent) same.title = text.textContent.trim();
  }

  // Live pages: one stream of events a tab, closed while the tab is hidden. Texts of
  // fields are set; changes are told to screen readers every five seconds at most.
  const topic = document.body.dataset.topic;
  if (topic && window.EventSource) {
    let stream = null;
    let spoken = 0;
    const number = (key) => Number(key.split(":")[1]);
    const newest = Math.max(0, ...[...document.querySelectorAll("[data-live]")].map((n) => number(n.dataset.live) || 0));
    const apply = (changes) => {
      let told = "";
      let fresh = 0;
      for (const [key, fields] of Object.entries(changes)) {
        const box = document.querySelector(`[data-live="${CSS.escape(key)}"]`);
        if (!box) { if (number(key) > newest) fresh++; continue; }
        for (const [name, text] of Object.entries(fields)) {
          const node = box.querySelector(`[data-field="${name}"]`);
          if (!node || node.textContent === text) continue;
          node.textContent = text;
          if (name === "state") {
            node.className = "mark " + (/^(done|answers)$/.test(text) ? "ok" : /^failed|breaker/.test(text) ? "bad" : /^running|in a row/.test(text) ? "warn" : "dim");
            told = key.replace(":", " ") + " is " + text;
          }
        }
      }
      const offer = document.querySelector("[data-fresh]");
      if (offer && fresh > 0) {
        const link = document.createElement("a");
        link.href = location.href;
        link.textContent = `${fresh} new, show`;
        offer.replaceChildren(link);
        offer.hidden = false;
      }
      if (told && Date.now() - spoken > 5000) { spoken = Date.now(); say(told); }
    };
    const open = () => {
      stream = new EventSource(document.body.dataset.events + "?topics=" + encodeURIComponent(topic));
      stream.onmessage = (e) => apply(JSON.parse(e.data));
      // A stream that was refused, because others are open or the server starts, is not asked for again by the browser.
      stream.onerror = () => {
        if (stream && stream.readyState === EventSource.CLOSED) { stream = null; setTimeout(follow, 20000); }
      };
    };
    const follow = () => {
      if (document.hidden && stream) { stream.close(); stream = null; }
      if (!document.hidden && !stream) open();
    };
    document.addEventListener("visibilitychange", follow);
    addEventListener("pagehide", () => { if (stream) { stream.close(); stream = null; } });
    follow();
  }

  // Menus of the navigation close with the key Escape, and when something else is pressed or
  // has the focus.
  const leave = (e) => {
    const menu = document.querySelector("nav details[open]");
    if (!menu || (e.key ? e.key !== "Escape" : menu.contains(e.target))) return;
    menu.open = false;
    if (e.key) menu.firstElementChild.focus();
  };
  for (const what of ["click", "focusin", "keydown"]) document.addEventListener(what, leave);

  // The key "/" leads to the search.
  document.addEventListener("keydown", (e) => {
    if (e.key !== "/" || e.ctrlKey || e.altKey || e.metaKey || document.documentElement.dataset.keys === "off") return;
    if (e.target instanceof Element && e.target.closest("input, textarea, select, [contenteditable]")) return;
    const box = document.getElementById("q");
    if (box) { e.preventDefault(); box.focus(); box.select(); }
  });

  // Files that are dropped or chosen: the server says which parts of them it needs. Then
  // the form is sent with messages that have these parts, in place of the files.
  // A file that misses the area would replace the page: it may be dropped anywhere.
  const whenDropped = (form, take) => {
    document.addEventListener("dragover", (e) => {
      if (!e.dataTransfer.types.includes("Files")) return;
      e.preventDefault();
      form.classList.add("over");
    });
    document.addEventListener("dragleave", (e) => { if (!e.relatedTarget) form.classList.remove("over"); });
    document.addEventListener("drop", (e) => {
      form.classList.remove("over");
      if (!e.dataTransfer.files.length) return;
      e.preventDefault();
      take(e.dataTransfer.files);
    });
  };
  const type = "application/x-symdepot-slices";
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  const mib = (n) => (n / 1048576).toFixed(1) + " MiB";
  const needed = async (file, api, sent) => {
    const slices = file.size ? [{ at: 0, len: Math.min(file.size, 65536) }] : [];
    for (let round = 1, waits = 0; round <= 32;) {
      const head = JSON.stringify({ name: file.name, size: file.size, round, slices }) + "\n";
      sent(slices.reduce((n, s) => n + s.len, 0));
      const parts = new File([head, ...slices.map((s) => file.slice(s.at, s.at + s.len))], file.name, { type });
      const answer = await fetch(api + "?only=need", { method: "POST", headers: { "Content-Type": type }, body: parts });
      if (answer.status === 503 && waits++ < 10) {
        await pause(2000);
        continue;
      }
      if (answer.ok && answer.status !== 202) return parts;
      if (answer.status === 413 && file.size <= 2 ** 28) return file; // too many parts are needed
      const told = await answer.json();
      if (answer.status !== 202) throw new Error(told.detail || told.title);
      slices.push(...told.need);
      round++;
    }
    throw new Error("the server asks for too many parts");
  };
  for (const form of document.querySelectorAll("form.drop")) {
    const input = form.querySelector("input[type=file]"), wrong = form.querySelector("[role=alert]"), button = form.querySelector("button");
    const asks = button.textContent;
    const send = async (files) => {
      if (files.length === 0 || button.disabled) return;
      const list = new DataTransfer();
      wrong.hidden = true;
      button.disabled = true;
      try {
        if (files.length > 64) throw new Error("At most 64 files at once.");
        if (files.length > 1 && !input.multiple) throw new Error("One file at once.");
        for (const file of [...files]) {
          button.textContent = "Reading " + file.name;
          say(button.textContent);
          const sent = (n) => { button.textContent = `Reading ${file.name}, ${mib(n)} sent`; };
          list.items.add(file.size <= +form.dataset.whole ? file : await needed(file, form.dataset.api, sent));
        }
        input.files = list.files;
        form.submit();
        input.value = "";
      } catch (e) {
        wrong.hidden = false;
        wrong.textContent = e.message;
      }
      button.disabled = false;
      button.textContent = asks;
    };
    form.addEventListener("submit", (e) => { e.preventDefault(); send(input.files); });
    whenDropped(form, send);
  }

  // Files that are published: a bar shows how much was sent. The answer leads to the page
  // of the build, or says what was wrong, and the form stays as it is.
  for (const form of document.querySelectorAll("form[data-publish]")) {
    const wrong = form.querySelector("[data-wrong]"), sending = form.querySelector("[data-sending]"), button = form.querySelector("button[type=submit]");
    const bar = sending.querySelector("progress"), text = sending.querySelector("span"), stop = sending.querySelector("button");
    const line = (words) => { const p = document.createElement("p"); p.className = "note bad"; p.textContent = words; return p; };
    const stay = (e) => e.preventDefault();
    const end = (...nodes) => {
      removeEventListener("beforeunload", stay);
      sending.hidden = true;
      button.disabled = false;
      wrong.replaceChildren(...nodes);
      wrong.hidden = nodes.length === 0;
    };
    const input = form.querySelector("input[type=file]");
    // The server reads the labels before the first file, so the area comes last in the page.
    const area = form.querySelector(".drop");
    form.prepend(area);
    whenDropped(area, (files) => {
      if (button.disabled) return;
      const list = new DataTransfer();
      for (const file of [...input.files, ...files]) list.items.add(file);
      input.files = list.files;
      say(input.files.length + " files are chosen");
    });
    form.addEventListener("submit", (e) => {
      e.preventDefault();
      const files = [...input.files];
      const large = files.find((f) => f.size > +form.dataset.publish);
      if (large) return end(line(large.name + " is larger than the server takes."));
      if (files.reduce((n, f) => n + f.size, 0) > +form.dataset.most) return end(line("The files together are larger than the server takes."));
      const ask = new XMLHttpRequest();
      let told = Date.now();
      ask.open("POST", form.action);
      ask.responseType = "document";
      ask.upload.onprogress = (p) => {
        bar.value = 100 * p.loaded / p.total;
        text.textContent = `${mib(p.loaded)} of ${mib(p.total)}`;
        if (Date.now() - told > 5000) { told = Date.now(); say(Math.floor(bar.value) + " % sent"); }
      };
      ask.upload.onload = () => {
        bar.removeAttribute("value");
        text.textContent = "All is sent; the server reads it";
        say(text.textContent);
      };
      ask.onload = () => {
        const main = ask.response && ask.response.getElementById("main");
        end();
        if (ask.status < 300) return location.assign(ask.responseURL);
        if (!main) return end(line("The server answered with status " + ask.status + "."));
        main.querySelectorAll("form, .limits").forEach((n) => n.remove());
        const title = main.querySelector("h1");
        title.replaceWith(...title.textContent === document.querySelector("h1").textContent ? [] : [line(title.textContent)]);
        end(...main.children);
      };
      ask.onerror = () => end(line("The connection broke. Nothing was published."));
      ask.onabort = () => end(line("Stopped. Nothing was published."));
      stop.onclick = () => ask.abort();
      end();
      sending.hidden = false;
      button.disabled = true;
      addEventListener("beforeunload", stay);
      const data = new FormData(form);
      data.delete("file");
      for (const file of files) data.append("file", file);
      ask.send(data);
    });
  }
})();
