package pages

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/store/blob"
)

const (
	// maxShownBytes is how many bytes a source file has at most whose lines are shown.
	maxShownBytes = 2 << 20
	// maxShownLines is how many lines it has at most: each is an element of the page.
	maxShownLines = 50_000
	// rawPolicy lets nothing of a source file be run, whatever a browser takes it for.
	rawPolicy = "default-src 'none'; sandbox"
)

// sourceView is what the page of a source file shows.
type sourceView struct {
	Name, Object, Sources string // the file that names it, and the addresses of its pages
	Path, Raw             string
	Size                  int64
	Count                 int    // of lines
	Refused               string // why no lines are shown
	Lines                 template.HTML
}

// visible returns the object of a content that the client may see.
func visible(c *catalog.Catalog, r *web.Request, content string) (blob.Ref, *catalog.EntryObject, error) {
	ref, err := blob.ParseRef(content)
	if err != nil {
		return ref, nil, hidden(fs.ErrNotExist, "file with this SHA-256")
	}
	e, err := c.Entry(r.Context(), r.Scope(), ref)
	if err == nil && len(e.Objects) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return ref, nil, hidden(err, "file with this SHA-256")
	}
	return ref, &e.Objects[0], nil
}

// showSource answers GET file/SHA256/source: one source file that debug information names, as
// a page with numbered lines or, with raw=1, as it is.
func (p sourcePages) showSource(w *reply, r *web.Request, args []string) error {
	ref, o, err := visible(p.catalog, r, args[0])
	if err != nil {
		return err
	}
	q := r.URL.Query()
	path := q.Get("path")
	file, err := web.OpenSource(r, o.Object, path)
	if err == nil && file.Size < 0 {
		err = errors.Join(fs.ErrNotExist, file.Close())
	}
	if err != nil {
		return hidden(err, "source file of this name in its debug information, or its text is not here")
	}
	defer file.Close()
	if q.Get("raw") != "" {
		return w.sendRaw(r, io.NewSectionReader(file, 0, file.Size))
	}
	f := w.frame(r, path, nil)
	v := sourceView{
		Name: o.Object.Name, Object: f.To("file", ref.String()), Sources: f.To("file", ref.String(), "sources"), Path: path,
		Raw: f.Here("raw", "1"), Size: file.Size,
	}
	if err := v.read(file); err != nil {
		return err
	}
	f.D = v
	return w.print(r, http.StatusOK, "source", f)
}

// read reads the lines of a source file.
func (v *sourceView) read(file io.ReaderAt) error {
	if v.Size > maxShownBytes {
		v.Refused = "The file is larger than 2 MiB."
		return nil
	}
	text := make([]byte, v.Size)
	if n, err := file.ReadAt(text, 0); n < len(text) {
		return fmt.Errorf("reading a source file: %w", err)
	}
	v.Count = bytes.Count(text, []byte("\n"))
	if !bytes.HasSuffix(text, []byte("\n")) && len(text) > 0 {
		v.Count++
	}
	switch {
	case bytes.IndexByte(text, 0) >= 0:
		v.Refused = "The file has NUL bytes: it is no text, or one in UTF-16."
	case v.Count > maxShownLines:
		v.Refused = fmt.Sprintf("The file has more than %d lines.", maxShownLines)
	default:
		v.Lines = linesHTML(string(text))
	}
	return nil
}

// linesHTML prints a text with a numbered element for each line.
func linesHTML(text string) template.HTML {
	var b strings.Builder
	n := 0
	for line := range strings.Lines(text) {
		n++
		number := strconv.Itoa(n)
		b.WriteString(`<span id="L` + number + `"><a href="#L` + number + `">` + number + `</a>`)
		visibleText(&b, strings.TrimRight(line, "\r\n"))
		b.WriteString("\n</span>")
	}
	return template.HTML(b.String()) //nolint:gosec // numbers, our own elements and escaped text
}

// visibleText prints a text in which nothing is hidden: a source that is shown in another order
// than compilers read it would deceive.
func visibleText(b *strings.Builder, s string) {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '&' || r == '<' || r == '>' || r == '"' || r == '\'':
			b.WriteString(template.HTMLEscapeString(s[i : i+n]))
		case r == utf8.RuneError && n == 1:
			b.WriteRune(utf8.RuneError)
		case r != '\t' && (r < ' ' || r >= 0x7f) && isHidden(r):
			writeHidden(b, r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
}

// sendRaw answers with a source file as plain text.
func (w *reply) sendRaw(r *web.Request, from *io.SectionReader) error {
	web.Finish(w, r)
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Security-Policy", rawPolicy)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.FormatInt(from.Size(), 10))
	if w.made != nil {
		w.made()
	}
	w.WriteHeader(http.StatusOK)
	_, err := io.Copy(w.ResponseWriter, from)
	return web.NotSent(err)
}
