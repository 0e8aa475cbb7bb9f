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
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/files/scan"
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
	return k, symfile.ValidName(k.module) && symfile.ValidName(k.file) && truncate.Printable(key) && debugid.IsHex(k.id) &&
		len(k.id) <= 2*debugid.MaxBuildID
}

// check compares the key with the objects of the file.
func (k teckenKey) check(a stage.Arrived) error {
	if !oneHasID(a.Objects, k.id) {
		return wrongID(k.module+"/"+k.id+"/"+k.file, k.id, a.Objects)
	}
	for _, o := range a.Objects {
		if o.Kind == symfile.Breakpad && symfile.Fold(o.Name) != symfile.Fold(k.module) {
			return &wrongClaim{fmt.Sprintf("%s/%s/%s is of the module %s",
				truncate.Text(k.module), k.id, truncate.Text(k.file), truncate.Text(o.Name))}
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
		return &failure{
			http.StatusBadRequest,
			"send the archive as multipart/form-data, as curl -F symbols.zip=@symbols.zip does; an upload by URL is not supported",
		}
	}
	isZip := func(s string) bool { return strings.HasSuffix(strings.ToLower(s), ".zip") }
	f, err := x.readForm(func(field, filename string) bool { return filename != "" || isZip(field) })
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
		return &failure{
			http.StatusBadRequest,
			"send the archive as multipart/form-data, as curl -F symbols.zip=@symbols.zip does; an upload by URL is not supported",
		}
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
			return &failure{http.StatusBadRequest, fmt.Sprintf("unrecognized file pattern: %q is not module/ID/file", truncate.Text(key))}
		}
		sum := sha256.Sum256([]byte(member))
		if size, ok := seen[[16]byte(sum[:16])]; ok && size != f.Size {
			return &failure{http.StatusBadRequest, fmt.Sprintf("the archive has two different files of the name %q", truncate.Text(key))}
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
			return &failure{http.StatusBadRequest, fmt.Sprintf("%q is not a symbol file", truncate.Text(key))}
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

// teckenUpload is an open upload of version 2. Each file is in a transaction before its
// request is answered, as nothing says that the last has come: what the client has sent
// stays if a later file is refused. The facts survive the process.
type teckenUpload struct {
	teckenFacts
	path string
}

// teckenFacts is the record of an upload.
type teckenFacts struct {
	keeper
	Labels stage.Labels
	Build  stage.Build
	Limit  int64 // of a file, in bytes
	Files  []teckenFile
}

type teckenFile struct {
	Key  string // module/ID/file
	Size int64
	MD5  string
}

// teckenPattern matches the files of uploads, and those of earlier versions, which had
// one transaction for all files of an upload.
const teckenPattern = "tecken-*.json*"

// maxTeckenState limits the file of an upload, in bytes.
const maxTeckenState = 16 << 20

func teckenPath(h *service, key string) string {
	return filepath.Join(h.cfg.Dir, "tecken-"+key+".json")
}

// write writes the file of the upload.
func (u *teckenUpload) write() error {
	b, err := json.Marshal(&u.teckenFacts)
	if err != nil {
		return err
	}
	return os.WriteFile(u.path, b, 0o600)
}

// readTecken reads the file of an upload.
func readTecken(path string) (*teckenUpload, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	u := &teckenUpload{path: path}
	return u, json.NewDecoder(io.LimitReader(f, maxTeckenState)).Decode(&u.teckenFacts)
}

// findTecken returns the upload of a key.
func findTecken(h *service, key string) (*teckenUpload, error) {
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
	if u.ID == "" { // of an earlier version, which did not keep whose it is
		return nil, missing
	}
	return u, nil
}

// caller is the principal of the upload. The URL of a file stands for its credentials.
func (u *teckenUpload) caller(h *service) stage.Caller { return u.once(h, u.Labels.Product) }

// expireTecken removes uploads that were not used for long.
func expireTecken(h *service) {
	for _, path := range filesOf(h, teckenPattern) {
		info, err := os.Stat(path)
		if err != nil || h.now().Sub(info.ModTime()) <= teckenIdle {
			continue
		}
		_ = os.Remove(path) // another process may be faster
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
	u := &teckenUpload{
		teckenFacts: teckenFacts{keeper: keeperOf(&x.who), Labels: l, Build: x.who.Build, Limit: x.limit},
		path:        teckenPath(x.service, id),
	}
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
		// A client without the rights is told so now.
		if _, err := x.collect(l); err != nil {
			return err
		}
		if err := u.write(); err != nil {
			return err
		}
	}
	return x.json(http.StatusCreated, map[string]any{
		"id": x.now().UnixNano() / 1000, "created_at": x.now().Unix(), "user": x.who.Name, "try_symbols": l.Class == tryClass,
		"upload_protocol": "gcs-resumable", "files": list,
	})
}

// serveTeckenPut answers the PUT of one file of version 2, and the POST by which
// clients of Google's resumable uploads ask for the URL of the PUT. The URL stands for
// the credentials of the upload, as long as they count.
func serveTeckenPut(x *exchange) error {
	u, err := findTecken(x.service, x.t.args[0])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(x.t.args[1])
	if err != nil || n < 0 || n >= len(u.Files) {
		return &failure{http.StatusNotFound, "there is no such upload, or it has expired"}
	}
	x.who, x.limit = Who{Caller: u.caller(x.service), Build: u.Build}, u.Limit
	if err := still(x.r.Context(), x.who.Caller, u.Labels.Product); err != nil {
		return err
	}
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
	k, _ := parseTeckenKey(f.Key)
	if err := x.one(u.Labels, k.module+"/"+k.id+"/"+k.file, plain, func(a stage.Arrived) error {
		if err := same(a.Size); err != nil {
			return err
		}
		return k.check(a)
	}); err != nil {
		return err
	}
	_ = os.Chtimes(u.path, time.Time{}, x.now()) // otherwise the upload expires earlier
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
