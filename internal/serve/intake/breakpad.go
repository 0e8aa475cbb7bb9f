package intake

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Breakpad's symupload and sym_upload: version 1 is a form, version 2 asks, gets a
// URL, sends the file there and completes. The form intake also takes those of
// bugsnag-cli.

var breakpadFace = &face{
	name: "breakpad", noCredential: http.StatusUnauthorized, badCredential: http.StatusUnauthorized,
	quota: http.StatusRequestEntityTooLarge, unfit: http.StatusBadRequest, wrong: http.StatusBadRequest,
	write: textFailure,
}

// breakpad2Face: the client on Linux looks for words in the body and ignores most
// statuses, so a failure has neither a result nor a status member.
var breakpad2Face = &face{
	name: "breakpad2", noCredential: http.StatusUnauthorized, badCredential: http.StatusUnauthorized,
	quota: http.StatusRequestEntityTooLarge, unfit: http.StatusBadRequest, wrong: http.StatusBadRequest,
	write: jsonFailure("error"),
}

// fileFields are the names of a form's file part: symbol_file in Breakpad's protocol, dsym
// and soFile in the forms of bugsnag-cli, and file for forms by hand.
var fileFields = map[string]bool{"symbol_file": true, "dsym": true, "soFile": true, "file": true}

// serveForm answers a form upload of version 1: one file, or an archive.
func serveForm(x *exchange) error {
	if err := x.take(); err != nil {
		return err
	}
	f, err := x.readForm(func(field, _ string) bool { return fileFields[field] })
	if err != nil {
		return err
	}
	defer f.close()
	if f.file == nil {
		return &failure{http.StatusBadRequest, "the form has no file; its part is named symbol_file"}
	}
	l, err := x.labels(stage.Labels{Product: f.fields["product"], Version: f.fields["version"]})
	if err != nil {
		return err
	}
	name := first(f.fields["debug_file"], f.name)
	switch {
	case f.part == "symbol_file" && f.fields["debug_file"] == "", name == "":
		name = first(f.name, f.fields["code_file"], "upload.sym")
	}
	if name, err = cleanPath(symfile.BaseName(name)); err != nil {
		return err
	}
	claim := first(f.fields["debug_identifier"], f.fields["debug_id"])
	check := func(_ string, a stage.Arrived, _ *scan.Content) error {
		if claim != "" && !oneHasID(a.Objects, claim) {
			return wrongID(name, claim, a.Objects)
		}
		return nil
	}
	if isArchive(f.file) {
		_, err = x.transaction(l, func(u *upload) error {
			_, err := x.expand(x.r.Context(), u, f.file, first(f.name, name), taking{check: check})
			return err
		})
	} else {
		err = x.one(l, name, f.file.reader(), func(a stage.Arrived) error { return check(name, a, nil) })
	}
	if err != nil {
		return err
	}
	return x.text(http.StatusOK, "OK")
}

// one puts a file into the collecting stage.
func (x *exchange) one(l stage.Labels, path string, body io.Reader, check func(stage.Arrived) error) error {
	id, err := x.collect(l)
	if err != nil {
		return err
	}
	a, err := x.stages.PutClaimed(x.r.Context(), x.who.Caller, id, stage.Entry{Path: path, Size: -1}, body, check)
	if err == nil {
		tellOther(x.w.Header(), &a)
	}
	return err
}

// tellOther tells a client in a Warning header that the product had other bytes with an id
// of its file; of an archive, the first file. Most protocols have no other place for it:
// Breakpad's knows OK and DUPLICATE_DATA alone.
func tellOther(h http.Header, a *stage.Arrived) {
	if note := a.OtherNote(); note != "" && h.Get("Warning") == "" {
		h.Set("Warning", `299 - "`+warnText(truncate.To(note, 500))+`"`)
	}
}

const (
	breakpadIdle   = time.Hour
	maxCompleteLen = 64 << 10
)

// breakpadUpload is an upload of version 2 between its first and last request. It
// survives the process: its facts are in a file, and its body is in another one.
type breakpadUpload struct {
	breakpadFacts
	facts, body string // the files

	mu     sync.Mutex
	file   *spool // nil: not sent yet
	closed bool
}

// breakpadFacts is the record of an upload.
type breakpadFacts struct {
	keeper
	Labels stage.Labels
	Limit  int64 // of the body, in bytes
}

// factsPattern matches the files with the facts of uploads.
const factsPattern = "upload-*.json"

// newBreakpadUpload returns the upload of a key, which is not written yet.
func newBreakpadUpload(h *service, key string, facts breakpadFacts) *breakpadUpload {
	in := func(name string) string { return filepath.Join(h.cfg.Dir, name) }
	return &breakpadUpload{breakpadFacts: facts, facts: in("upload-" + key + ".json"), body: in("body-" + key)}
}

// write writes the facts.
func (u *breakpadUpload) write() error {
	b, err := json.Marshal(u.breakpadFacts)
	if err != nil {
		return err
	}
	return os.WriteFile(u.facts, b, 0o600)
}

// findBreakpad returns the upload of a key. One of an earlier process is read from its
// files.
func findBreakpad(h *service, known *recent[*breakpadUpload], key string) (*breakpadUpload, bool) {
	if u, ok := known.get(key); ok {
		return u, true
	}
	if b, err := hex.DecodeString(key); err != nil || len(b) != keyBytes || strings.ToLower(key) != key {
		return nil, false
	}
	u := newBreakpadUpload(h, key, breakpadFacts{})
	info, err := os.Stat(u.facts)
	if err != nil || h.now().Sub(info.ModTime()) > breakpadIdle || info.Size() > maxCompleteLen {
		return nil, false
	}
	b, err := os.ReadFile(u.facts)
	if err != nil || json.Unmarshal(b, &u.breakpadFacts) != nil || u.ID == "" { // an earlier version did not keep whose it is
		return nil, false
	}
	if f, err := os.Open(u.body); err == nil {
		u.file = &spool{File: f, h: h}
		if info, err := f.Stat(); err == nil {
			u.file.size = info.Size()
		}
		h.spooled.Add(u.file.size)
	}
	if !known.add(key, u) { // another request was faster
		u.leave()
		return known.get(key)
	}
	return u, true
}

// close ends the upload and removes its files.
func (u *breakpadUpload) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	if u.file != nil {
		u.file.Close()
		u.file = nil
	}
	_ = os.Remove(u.facts) // it may be removed already
}

// leave leaves the upload to the next process.
func (u *breakpadUpload) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	if u.file != nil {
		u.file.h.spooled.Add(-u.file.size)
		_ = u.file.File.Close() // only read from now on
		u.file = nil
	}
}

// members writes {"name": "value"} with exactly one space: the clients look for
// this text. Values are fixed words, keys and URLs.
func (x *exchange) members(pairs ...string) error {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		b.WriteString(map[bool]string{true: "{", false: ", "}[i == 0])
		fmt.Fprintf(&b, `"%s": "%s"`, pairs[i], pairs[i+1])
	}
	b.WriteString("}\n")
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(x.w, b.String()) // the client may have left
	return nil
}

// serveCheckStatus answers whether the depot has a file already. The request does not
// say whether the client has the Breakpad file or the file with the debug
// information, so the answer is FOUND only if both are there.
func serveCheckStatus(x *exchange) error {
	l, err := x.labels(stage.Labels{})
	if err != nil {
		return err
	}
	name, id := symfile.Fold(x.t.args[0]), symfile.Fold(strings.ReplaceAll(x.t.args[1], "-", ""))
	missing := func() error { return x.members("status", "MISSING") }
	if !symfile.ValidName(name) || id == "" || len(id) > 128 {
		return missing()
	}
	var both []stage.Found
	for _, role := range []symfile.Role{symfile.Symbols, symfile.Debug} {
		list, err := x.stages.Find(x.r.Context(), x.who.Caller, stage.Query{Lookup: symfile.Lookup{Name: name, ID: id, Role: role}})
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return missing()
		}
		both = append(both, list[0])
	}
	stageID, err := x.collect(l)
	if err != nil {
		return err
	}
	for i, f := range both {
		path := name
		if i == 0 {
			path += ".sym"
		}
		if _, ok, err := x.enter(x.r.Context(), x.who.Caller, stageID, path, f); err != nil || !ok {
			return errOr(err, missing)
		}
	}
	return x.members("status", "FOUND")
}

func errOr(err error, otherwise func() error) error {
	if err != nil {
		return err
	}
	return otherwise()
}

// serveCreate opens an upload and answers the URL for its file.
func serveCreate(x *exchange) error {
	if err := x.take(); err != nil {
		return err
	}
	l, err := x.labels(stage.Labels{})
	if err != nil {
		return err
	}
	if _, err := x.readAll(maxCompleteLen); err != nil {
		return err
	}
	key := newKey()
	u := newBreakpadUpload(x.service, key, breakpadFacts{keeperOf(&x.who), l, x.limit})
	if err := u.write(); err != nil {
		return err
	}
	x.breakpad.put(key, u)
	return x.members("uploadUrl", x.base()+"/v1/uploads/"+key, "uploadKey", key)
}

// serveUploadData receives the file. The URL stands for the credentials of the upload, as
// long as they count.
func serveUploadData(x *exchange) error {
	u, ok := findBreakpad(x.service, x.breakpad, x.t.args[0])
	if !ok {
		return &failure{http.StatusNotFound, "there is no such upload, or it has expired"}
	}
	x.who, x.limit = Who{Caller: u.once(x.service, u.Labels.Product)}, u.Limit
	if err := still(x.r.Context(), x.who.Caller, u.Labels.Product); err != nil {
		return err
	}
	if x.r.ContentLength > u.Limit {
		return tooLarge(x.limit)
	}
	body, err := x.decoded(x.body, x.r.Header.Get("Content-Encoding"))
	if err != nil {
		return err
	}
	defer body.Close()
	s, err := x.spool(body, u.Limit)
	if err != nil {
		return err
	}
	if _, err := objfile.Identify(s, s.size, "", objfile.Options{}); err != nil {
		s.Close()
		if errors.Is(err, objfile.ErrNotSymbolFile) || errors.Is(err, objfile.ErrBroken) {
			return &failure{http.StatusBadRequest, err.Error()}
		}
		return err
	}
	if err := still(x.r.Context(), x.who.Caller, u.Labels.Product); err != nil { // the body may have come for hours
		s.Close()
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		s.Close()
		return &failure{http.StatusNotFound, "the upload has ended"}
	}
	if u.file != nil {
		u.file.Close()
		u.file = nil
	}
	if err := s.moveTo(u.body); err != nil {
		s.Close()
		return err
	}
	u.file = s
	return x.text(http.StatusOK, "OK")
}

// looseMember finds a string member of JSON whose names may lack their quotes: the
// client on Linux writes them so.
func looseMember(body []byte, name string) string {
	m := regexp.MustCompile(`(?:^|[{,\s])"?` + name + `"?\s*:\s*("(?:[^"\\]|\\.)*")`).FindSubmatch(body)
	if m == nil {
		return ""
	}
	s, err := strconv.Unquote(string(m[1]))
	if err != nil {
		return strings.Trim(string(m[1]), `"`)
	}
	return s
}

// serveComplete stores the file of an upload under the name of the request. Of other bytes
// with the id of a file of the product the answer is OK: they are kept beside it, and are
// no duplicate.
func serveComplete(x *exchange) error {
	b, err := x.readAll(maxCompleteLen)
	if err != nil {
		return err
	}
	key := x.t.args[0]
	u, ok := findBreakpad(x.service, x.breakpad, key)
	if !ok || u.ID != x.who.ID {
		return &failure{http.StatusNotFound, "there is no such upload, or it has expired"}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.file == nil {
		return &failure{http.StatusBadRequest, "no file was sent to the uploadUrl"}
	}
	name, id := looseMember(b, "debug_file"), looseMember(b, "debug_id")
	l := u.Labels
	if p := looseMember(b, "product_name"); p != "" && l.Product == "" {
		if l, err = x.labels(stage.Labels{Product: p}); err != nil {
			return err
		}
	}
	path := "upload.sym"
	if name != "" {
		if path, err = cleanPath(symfile.BaseName(name)); err != nil {
			return err
		}
	}
	had := false
	err = x.one(l, path, u.file.reader(), func(a stage.Arrived) error {
		had = a.Had
		if id != "" && !oneHasID(a.Objects, id) {
			return wrongID(path, id, a.Objects)
		}
		for _, o := range a.Objects {
			if o.Kind == symfile.Breakpad && name != "" && symfile.Fold(o.Name) != symfile.Fold(symfile.BaseName(name)) {
				return &wrongClaim{fmt.Sprintf("the file is of the module %s, not %s", truncate.Text(o.Name), truncate.Text(name))}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	u.file.Close()
	u.file, u.closed = nil, true
	_ = os.Remove(u.facts) // otherwise it is removed when it is old
	x.breakpad.delete(key)
	if had {
		return x.members("result", "DUPLICATE_DATA")
	}
	return x.members("result", "OK")
}
