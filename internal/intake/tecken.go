package intake

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the protocol names files by MD5; contents are named by SHA-256
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/clip"
	"github.com/symdepot/symdepot/internal/scan"
	"github.com/symdepot/symdepot/internal/stage"
	"github.com/symdepot/symdepot/symfile"
)

// The upload API of Mozilla's symbol server Tecken, version 1 (a zip archive in a
// form) and version 2 (a list of files, then one PUT for each).

var teckenFace = &face{
	name: "tecken", noCredential: http.StatusForbidden, badCredential: http.StatusForbidden,
	quota: http.StatusRequestEntityTooLarge, unfit: http.StatusBadRequest, wrong: http.StatusBadRequest,
	write: jsonFailure("error"),
}

// tryClass is the class of uploads for try builds, which live shorter and outrank no
// other file.
const tryClass = stage.ClassTry

// teckenKey is the path of a file in an upload: module/ID/file.
type teckenKey struct{ module, id, file string }

func parseTeckenKey(key string) (k teckenKey, ok bool) {
	key = strings.ReplaceAll(key, `\`, "/")
	s := strings.Split(key, "/")
	if len(s) != 3 {
		return k, false
	}
	k = teckenKey{s[0], s[1], s[2]}
	return k, symfile.ValidName(k.module) && symfile.ValidName(k.file) && clip.Printable(key) && debugid.IsHex(k.id) && len(k.id) <= 2*debugid.MaxBuildID
}

// check compares the key with the objects of the file.
func (k teckenKey) check(a stage.Arrived) error {
	if !oneHasID(a.Objects, k.id) {
		return wrongID(k.module+"/"+k.id+"/"+k.file, k.id, a.Objects)
	}
	for _, o := range a.Objects {
		if o.Kind == symfile.Breakpad && symfile.Fold(o.Name) != symfile.Fold(k.module) {
			return &wrongClaim{fmt.Sprintf("%s/%s/%s is of the module %s", clip.Text(k.module), k.id, clip.Text(k.file), clip.Text(o.Name))}
		}
	}
	return nil
}

// ignoredMember reports whether Tecken ignores a member of an archive.
func ignoredMember(p string) bool {
	base := path.Base(strings.ReplaceAll(p, `\`, "/"))
	return base == ".DS_Store" || base == p && strings.HasSuffix(p, "-symbols.txt")
}

// teckenLabels are the labels of an upload with the field try.
func (x *exchange) teckenLabels(try string) (stage.Labels, error) {
	var l stage.Labels
	if try != "" {
		l.Class = tryClass
	}
	return x.labels(l)
}

// serveTecken answers POST /upload/.
func serveTecken(x *exchange) error {
	if err := x.take(); err != nil {
		return err
	}
	if strings.HasPrefix(x.r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return &failure{http.StatusBadRequest, "send the archive as multipart/form-data, as curl -F symbols.zip=@symbols.zip does; an upload by URL is not supported"}
	}
	isZip := func(s string) bool { return strings.HasSuffix(strings.ToLower(s), ".zip") }
	f, err := x.readForm(func(field, filename string) bool { return filename != "" || isZip(field) }, nil)
	if err != nil {
		return err
	}
	defer f.close()
	name := f.part
	if !isZip(name) && isZip(f.name) {
		name = f.name
	}
	switch {
	case f.file == nil && f.fields["url"] != "":
		return &failure{http.StatusBadRequest, "send the archive as multipart/form-data, as curl -F symbols.zip=@symbols.zip does; an upload by URL is not supported"}
	case f.file == nil:
		return &failure{http.StatusBadRequest, "must be multipart form data with at least one file"}
	case !isZip(name):
		return &failure{http.StatusBadRequest, "the name of the file's field must end in .zip"}
	}
	l, err := x.teckenLabels(f.fields["try"])
	if err != nil {
		return err
	}
	if err := x.checkTeckenZip(f.file, name); err != nil {
		return err
	}
	created := x.now().UTC()
	skipped := []string{}
	taken := map[string]bool{} // keys with a symbol file
	done, err := x.transaction(l, func(u *upload) error {
		list, err := x.expand(x.r.Context(), u, f.file, name, taking{check: func(member string, a stage.Arrived, _ *scan.Content) error {
			k, _ := parseTeckenKey(outer(member))
			return k.check(a)
		}})
		for _, s := range list {
			key := outer(s.path)
			if !taken[key] && s.Had {
				skipped = append(skipped, key)
			}
			taken[key] = true
		}
		if err != nil {
			return err
		}
		return x.allTaken(f.file, name, taken)
	})
	if err != nil {
		return err
	}
	return x.json(http.StatusCreated, map[string]any{"upload": map[string]any{
		"id": done.Transaction, "size": f.file.size, "filename": name, "bucket": l.Product, "download_url": nil,
		"try_symbols": l.Class == tryClass, "redirect_urls": []string{}, "completed_at": x.now().UTC().Format(time.RFC3339Nano),
		"created_at": created.Format(time.RFC3339Nano), "user": x.who.Name, "skipped_keys": skipped,
	}})
}

// outer returns the path of a member in the outermost archive.
func outer(member string) string {
	member, _, _ = strings.Cut(member, scan.Separator)
	return strings.ReplaceAll(member, `\`, "/")
}

// checkTeckenZip checks the names of all members before the first is stored.
func (x *exchange) checkTeckenZip(s *spool, name string) error {
	var head [4]byte
	if _, err := s.ReadAt(head[:], 0); err != nil || head[0] != 'P' || head[1] != 'K' {
		return &failure{http.StatusBadRequest, "the file is not a zip archive"}
	}
	seen := map[[16]byte]int64{} // hashes: names may be long
	return x.walk(x.r.Context(), s, name, x.options(), func(member string, f *scan.File) error {
		if ignoredMember(member) {
			return nil
		}
		key := outer(member)
		if _, ok := parseTeckenKey(key); !ok {
			return &failure{http.StatusBadRequest, fmt.Sprintf("unrecognized file pattern: %q is not module/ID/file", clip.Text(key))}
		}
		sum := sha256.Sum256([]byte(member))
		if size, ok := seen[[16]byte(sum[:16])]; ok && size != f.Size {
			return &failure{http.StatusBadRequest, fmt.Sprintf("the archive has two different files of the name %q", clip.Text(key))}
		}
		seen[[16]byte(sum[:16])] = f.Size
		return nil
	}, nil)
}

// allTaken refuses an archive with members that have no symbol file: they would
// not be kept.
func (x *exchange) allTaken(s *spool, name string, taken map[string]bool) error {
	return x.walk(x.r.Context(), s, name, x.options(), func(member string, _ *scan.File) error {
		if key := outer(member); !ignoredMember(member) && !taken[key] {
			return &failure{http.StatusBadRequest, fmt.Sprintf("%q is not a symbol file", clip.Text(key))}
		}
		return nil
	}, nil)
}

// serveTeckenAuth answers POST /upload/auth_info/.
func serveTeckenAuth(x *exchange) error {
	if _, err := x.readAll(maxField); err != nil {
		return err
	}
	return x.json(http.StatusOK, map[string]any{
		"email": x.who.Name, "user_id": 0, "try_symbols": x.who.Defaults.Class == tryClass,
		"token_expires_at": x.now().AddDate(1, 0, 0).Unix(), "upload_api_version": 1,
	})
}

const (
	maxTeckenFiles = 1024
	teckenIdle     = 6 * time.Hour
)

// teckenUpload is an open upload of version 2: one transaction. Its only state is its
// file, so that it survives the process: a line with its facts, then a line for
// each file that has arrived.
type teckenUpload struct {
	teckenFacts
	path      string
	done      []bool // by the position in Files
	accepted  map[int]stage.Receipt
	committed bool
}

// teckenFacts is the record of an upload.
type teckenFacts struct {
	Name    string // of the principal
	Product string
	Stage   string
	Limit   int64 // of a file, in bytes
	Files   []teckenFile
}

type teckenFile struct {
	Key  string // module/ID/file
	Size int64
	MD5  string
}

// teckenEvent is a line of an upload's file after the first.
type teckenEvent struct {
	Done      *int           `json:"done,omitempty"` // the position of a file that has arrived
	Receipt   *stage.Receipt `json:"receipt,omitempty"`
	Committed bool           `json:"committed,omitempty"`
}

// teckenPattern matches the files of uploads.
const teckenPattern = "tecken-*.jsonl"

// maxTeckenState limits the file of an upload, in bytes: repeated requests add
// lines.
const maxTeckenState = 16 << 20

func teckenPath(h *Handler, key string) string {
	return filepath.Join(h.cfg.Dir, "tecken-"+key+".jsonl")
}

// write appends a line to the file of the upload.
func (u *teckenUpload) write(line any) error {
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = appendTo(u.path, append(b, '\n'))
	return err
}

// appendTo appends bytes to a file, which it makes if needed, or leaves it as it
// was. It returns the number of bytes.
func appendTo(path string, b []byte) (int64, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err == nil {
		if _, err = f.Write(b); err != nil {
			_ = f.Truncate(info.Size()) // a reader stops at a line without an end
		}
	}
	return int64(len(b)), errors.Join(err, f.Close())
}

// readTecken reads the file of an upload.
func readTecken(path string) (*teckenUpload, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	u := &teckenUpload{path: path}
	lines := json.NewDecoder(io.LimitReader(f, maxTeckenState))
	if err := lines.Decode(&u.teckenFacts); err != nil {
		return nil, err
	}
	u.done, u.accepted = make([]bool, len(u.Files)), map[int]stage.Receipt{}
	for {
		var e teckenEvent
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			return u, nil
		} else if err != nil {
			return nil, err
		}
		if e.Done != nil && *e.Done >= 0 && *e.Done < len(u.done) {
			u.done[*e.Done] = true
			if e.Receipt != nil {
				u.accepted[*e.Done] = *e.Receipt
			}
		}
		u.committed = u.committed || e.Committed
	}
}

// findTecken returns the upload of a key.
func findTecken(h *Handler, key string) (*teckenUpload, error) {
	missing := &failure{http.StatusNotFound, "there is no such upload, or it has expired"}
	if b, err := hex.DecodeString(key); err != nil || len(b) != keyBytes || strings.ToLower(key) != key {
		return nil, missing
	}
	path := teckenPath(h, key)
	info, err := os.Stat(path)
	if err != nil || h.now().Sub(info.ModTime()) > teckenIdle {
		return nil, missing
	}
	u, err := readTecken(path)
	if err != nil {
		h.log.Warn("the file of an upload cannot be read", "protocol", "tecken", "error", err)
		return nil, missing
	}
	return u, nil
}

// caller is the principal of the upload. The URL of a file is the credential; the
// rights were checked when the upload was opened.
func (u *teckenUpload) caller() stage.Caller {
	return namedCaller(u.Name, u.Product)
}

// namedCaller is a principal whose upload continues without its credentials. It may
// add files to the product of the upload, and see nothing.
func namedCaller(name, product string) stage.Caller {
	return stage.Caller{Name: name, Read: func(string) bool { return false }, Write: func(p string) bool { return p == product }}
}

// expireTecken removes uploads that were not used for long.
func expireTecken(h *Handler) {
	for _, path := range filesOf(h, teckenPattern) {
		info, err := os.Stat(path)
		if err != nil || h.now().Sub(info.ModTime()) <= teckenIdle {
			continue
		}
		u, err := readTecken(path)
		if os.Remove(path) == nil && err == nil && !u.committed { // otherwise another process was faster
			h.abandon(u.caller(), u.Stage)
		}
	}
}

// keyBytes is the length of the key of an open upload, before its encoding in hex.
const keyBytes = 20

// newKey returns a secret key of an open upload.
func newKey() string {
	var b [keyBytes]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	return hex.EncodeToString(b[:])
}

// serveTeckenV2 answers POST /upload/v2/.
func serveTeckenV2(x *exchange) error {
	if err := x.take(); err != nil {
		return err
	}
	var q struct {
		Files []struct {
			Key  string `json:"key"`
			Size int64  `json:"size"`
			MD5  string `json:"md5_hash"`
		} `json:"files"`
		Try bool `json:"try"`
	}
	if err := x.readJSON(4<<20, &q); err != nil {
		return err
	}
	switch {
	case len(q.Files) > maxTeckenFiles:
		return &failure{http.StatusBadRequest, "too many files"}
	case len(q.Files) == 0:
		return &failure{http.StatusBadRequest, "the upload has no files"}
	}
	try := ""
	if q.Try {
		try = "1"
	}
	l, err := x.teckenLabels(try)
	if err != nil {
		return err
	}
	type action struct {
		Type     string  `json:"type"`
		URL      string  `json:"url,omitempty"`
		Encoding *string `json:"content_encoding,omitempty"`
		Msg      string  `json:"msg,omitempty"`
	}
	type answer struct {
		Key    string `json:"key"`
		Action action `json:"action"`
	}
	id, list, gzip := newKey(), []answer{}, "gzip"
	u := &teckenUpload{teckenFacts: teckenFacts{Name: x.who.Name, Product: l.Product, Limit: x.limit}, path: teckenPath(x.Handler, id)}
	for _, f := range q.Files {
		_, ok := parseTeckenKey(f.Key)
		sum, err := hex.DecodeString(f.MD5)
		a := answer{Key: f.Key}
		switch {
		case !ok:
			a.Action = action{Type: "error", Msg: "invalid key"}
		case err != nil || len(sum) != md5.Size || strings.ToLower(f.MD5) != f.MD5:
			a.Action = action{Type: "error", Msg: "invalid MD5 hex digest"}
		case f.Size < 0 || f.Size > x.limit:
			a.Action = action{Type: "error", Msg: "invalid size"}
		default:
			a.Action = action{Type: "upload", URL: x.base() + "/upload/v2/" + id + "/" + strconv.Itoa(len(u.Files)), Encoding: &gzip}
			u.Files = append(u.Files, teckenFile{Key: f.Key, Size: f.Size, MD5: f.MD5})
		}
		list = append(list, a)
	}
	if len(u.Files) > 0 {
		st, _, err := x.stages.Open(x.r.Context(), x.who.Caller, stage.Spec{Labels: l, Build: x.who.Build})
		if err != nil {
			return err
		}
		u.Stage = st.ID
		if err := u.write(&u.teckenFacts); err != nil {
			x.abandon(x.who.Caller, st.ID)
			return err
		}
	}
	return x.json(http.StatusCreated, map[string]any{
		"id": x.now().UnixNano() / 1000, "created_at": x.now().Unix(), "user": x.who.Name, "try_symbols": l.Class == tryClass,
		"upload_protocol": "gcs-resumable", "files": list,
	})
}

// serveTeckenPut answers the PUT of one file of version 2, and the POST by which
// clients of Google's resumable uploads ask for the URL of the PUT. The URL is the
// credential.
func serveTeckenPut(x *exchange) error {
	u, err := findTecken(x.Handler, x.t.args[0])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(x.t.args[1])
	if err != nil || n < 0 || n >= len(u.Files) {
		return &failure{http.StatusNotFound, "there is no such upload, or it has expired"}
	}
	x.who, x.limit = Who{Caller: u.caller()}, u.Limit
	if x.r.Method == http.MethodPost {
		if x.r.Header.Get("X-Goog-Resumable") != "start" {
			return &failure{http.StatusMethodNotAllowed, "send the file with PUT"}
		}
		x.w.Header().Set("Location", trimSlash(x.in.Origin+x.r.URL.EscapedPath()))
		x.w.WriteHeader(http.StatusCreated)
		return nil
	}
	if x.r.ContentLength > u.Limit {
		return tooLarge(x.limit)
	}
	f := u.Files[n]
	body, err := x.decoded(x.body, x.r.Header.Get("Content-Encoding"))
	if err != nil {
		return err
	}
	defer body.Close()
	sum := md5.New() //nolint:gosec // see above
	same := func(size int64) error {
		switch {
		case size != f.Size:
			return &failure{http.StatusBadRequest, fmt.Sprintf("the file has %d bytes, not %d", size, f.Size)}
		case !bytes.Equal(sum.Sum(nil), mustHex(f.MD5)):
			return &failure{http.StatusBadRequest, "the MD5 of the file is " + hex.EncodeToString(sum.Sum(nil)) + ", not " + f.MD5}
		}
		return nil
	}
	plain := io.TeeReader(io.LimitReader(body, u.Limit+1), sum)
	if u.complete() { // a repeated request: the stage accepts no files any more
		size, err := io.Copy(io.Discard, plain)
		if err == nil {
			err = same(size)
		}
		if err != nil {
			return err
		}
		return finishTecken(x, u)
	}
	k, _ := parseTeckenKey(f.Key)
	path := k.module + "/" + k.id + "/" + k.file
	a, err := x.stages.PutClaimed(x.r.Context(), u.caller(), u.Stage, stage.Entry{Path: path, Size: -1}, plain, func(a stage.Arrived) error {
		if err := same(a.Size); err != nil {
			return err
		}
		return k.check(a)
	})
	if err != nil {
		return err
	}
	if err := u.write(teckenEvent{Done: &n, Receipt: &a.Receipt}); err != nil {
		return err
	}
	// Requests for other files have added theirs meanwhile.
	if u, err = readTecken(u.path); err != nil {
		return err
	}
	return finishTecken(x, u)
}

// complete reports whether all files have arrived.
func (u *teckenUpload) complete() bool { return !slices.Contains(u.done, false) }

// finishTecken commits an upload with its last file, and answers the request.
func finishTecken(x *exchange, u *teckenUpload) error {
	if u.complete() && !u.committed {
		// A repeated commit has the same outcome.
		if _, err := x.stages.Commit(x.r.Context(), u.caller(), u.Stage, stage.Commit{Accepted: slices.Collect(maps.Values(u.accepted))}); err != nil {
			return err
		}
		if err := u.write(teckenEvent{Committed: true}); err != nil {
			x.log.Warn("the end of an upload cannot be recorded", "protocol", "tecken", "error", err)
		}
	}
	x.w.WriteHeader(http.StatusOK)
	return nil
}

// mustHex decodes digits that were checked.
func mustHex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(errors.New("intake: not hex: " + s))
	}
	return b
}
