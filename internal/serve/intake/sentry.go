package intake

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/symfile"
)

// The part of Sentry's API that "sentry-cli debug-files upload" uses: the options
// of chunked uploads, the chunks, the assembling of files from chunks, and the zip
// archive that clients before chunked uploads send.

var sentryFace = &face{
	name: "sentry", noCredential: http.StatusUnauthorized, badCredential: http.StatusUnauthorized,
	// The client sends a request again that was answered with 507.
	quota: http.StatusRequestEntityTooLarge, unfit: http.StatusBadRequest, wrong: http.StatusBadRequest,
	write: jsonFailure("detail"),
}

// sentryChunkFace is that of the chunks, which have their own error member.
var sentryChunkFace = &face{
	name: "sentry", noCredential: http.StatusUnauthorized, badCredential: http.StatusUnauthorized,
	quota: http.StatusRequestEntityTooLarge, unfit: http.StatusBadRequest, wrong: http.StatusBadRequest,
	write: jsonFailure("error"),
}

// Numbers of the options. They are those of Sentry's own server.
const (
	chunkSize        = 8 << 20
	chunksPerRequest = 64
	maxChunkRequest  = 32 << 20 // plain bytes
	chunkConcurrency = 8
)

func serveSentryInfo(x *exchange) error {
	return x.json(http.StatusOK, map[string]any{
		"version": "0", "user": map[string]any{"id": "0", "name": x.who.Name, "username": x.who.Name, "email": x.who.Name},
		"auth": map[string]any{"scopes": []string{"project:releases", "project:write"}},
	})
}

// serveSentryOptions answers how chunks are uploaded.
func serveSentryOptions(x *exchange) error {
	if err := x.take(); err != nil {
		return err
	}
	return x.json(http.StatusOK, map[string]any{
		"url":       trimSlash(x.in.Origin+x.r.URL.EscapedPath()) + "/",
		"chunkSize": chunkSize, "chunksPerRequest": chunksPerRequest, "maxFileSize": x.limit, "maxRequestSize": maxChunkRequest,
		"concurrency": chunkConcurrency, "hashAlgorithm": "sha1", "compression": []string{"gzip"},
		"accept": []string{"debug_files", "pdbs", "portablepdbs", "sources", "bcsymbolmaps", "il2cpp", "proguard"},
	})
}

// sentryLabels are the labels of an upload to a project. The organization is free
// text for us.
func (x *exchange) sentryLabels() (stage.Labels, error) {
	return x.labels(stage.Labels{Product: x.t.args[1], Comment: "Sentry organization " + truncate.Text(x.t.args[0])})
}

// sha1Of reads a SHA-1 as the protocol writes it.
func sha1Of(s string) (sum [20]byte, ok bool) {
	if len(s) != 40 || strings.ToLower(s) != s {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(s))
	return sum, err == nil
}

// assembleFile is one file of an assemble request.
type assembleFile struct {
	Name    string   `json:"name"`
	DebugID string   `json:"debug_id"`
	Chunks  []string `json:"chunks"`
}

// Limits of assemble requests.
const (
	maxAssemble       = 16 << 20 // bytes
	maxAssembleFiles  = 50_000
	maxAssembleChunks = 200_000
)

// The states of a file.
const (
	stateOK         = "ok"
	stateError      = "error"
	stateNotFound   = "not_found"
	stateAssembling = "assembling"
)

// assembled is the answer for one file.
type assembled struct {
	State   string   `json:"state"`
	Missing []string `json:"missingChunks"` // never nil
	Detail  *string  `json:"detail"`
	DIF     *dif     `json:"dif,omitempty"`
}

// dif describes a debug information file.
type dif struct {
	ID         string            `json:"id"`
	UUID       string            `json:"uuid"`
	DebugID    string            `json:"debugId,omitempty"`
	CodeID     string            `json:"codeId,omitempty"`
	CPU        string            `json:"cpuName"`
	Name       string            `json:"objectName"`
	SymbolType string            `json:"symbolType"`
	Headers    map[string]string `json:"headers"`
	Size       int64             `json:"size"`
	SHA1       string            `json:"sha1"`
	Created    time.Time         `json:"dateCreated"`
	Data       difData           `json:"data"`
}

type difData struct {
	Type     string   `json:"type"`
	Features []string `json:"features"`
}

// newDIF describes the first object of a file.
func newDIF(o symfile.Object, size int64, sum string, now time.Time) *dif {
	d := &dif{
		ID: sum, CPU: "any", Name: o.Name, SHA1: sum, Size: size, Created: now.UTC(), Headers: map[string]string{},
		CodeID: o.CodeID, SymbolType: o.Kind.String(), Data: difData{Type: "dbg", Features: []string{}},
	}
	if !o.DebugID.IsZero() {
		d.DebugID = o.DebugID.String()
	}
	d.UUID = d.DebugID
	switch {
	case o.Role&symfile.Sources != 0:
		d.Data.Type = "src"
	case o.Role&symfile.Executable != 0 && o.Main:
		d.Data.Type = "exe"
	case o.Role&symfile.Executable != 0:
		d.Data.Type = "lib"
	}
	return d
}

func difOf(a stage.Arrived, sum string, now time.Time) *dif {
	if len(a.Objects) == 0 {
		return nil
	}
	return newDIF(a.Objects[0], a.Size, sum, now)
}

func difOfFound(f stage.Found, sum string, now time.Time) *dif {
	if len(f.Objects) == 0 {
		return nil
	}
	return newDIF(f.Objects[0], f.Size, sum, now)
}

// checkAssembly compares an assembled file with the claims of the request about it.
// sentry-cli takes the age of a program for that of a PDB beside the program, and its
// servers compare the GUIDs only. The depot keeps the file under the file's own id, and
// the answer names this id.
func checkAssembly(sum string, f *assembleFile, a stage.Arrived) error {
	if a.SHA1 != sum {
		return &wrongClaim{fmt.Sprintf("the chunks make a file with the SHA-1 %s, not %s", a.SHA1, sum)}
	}
	if f.DebugID == "" {
		return nil
	}
	id, err := debugid.Parse(f.DebugID)
	if err != nil {
		return &wrongClaim{fmt.Sprintf("the debug id %q cannot be read", truncate.Text(f.DebugID))}
	}
	if !slices.ContainsFunc(a.Objects, func(o symfile.Object) bool { return o.DebugID.GUID == id.GUID && o.DebugID.PDB20 == id.PDB20 }) {
		return wrongID(f.Name, f.DebugID, a.Objects)
	}
	return nil
}

// serveSentryUnknown answers which files of the old zip upload are not there. The
// client does not send the others, so they enter its transaction.
func serveSentryUnknown(x *exchange) error {
	if err := x.take(); err != nil {
		return err
	}
	l, err := x.sentryLabels()
	if err != nil {
		return err
	}
	missing := []string{}
	collect := ""
	for _, text := range x.r.URL.Query()["checksums"] {
		_, ok := sha1Of(text)
		if !ok {
			return &failure{http.StatusBadRequest, fmt.Sprintf("%q is not a SHA-1", truncate.Text(text))}
		}
		list, err := x.stages.Find(x.r.Context(), x.who.Caller, stage.Query{SHA1: text})
		if err != nil {
			return err
		}
		ok = false
		if len(list) > 0 {
			if collect == "" {
				if collect, err = x.collect(l); err != nil {
					return err
				}
			}
			if _, ok, err = x.enter(x.r.Context(), x.who.Caller, collect, nameOf(list[0], text), list[0]); err != nil {
				return err
			}
		}
		if !ok {
			missing = append(missing, text)
		}
	}
	return x.json(http.StatusOK, map[string]any{"missing": missing})
}

// nameOf is the name under which a content that the depot has is entered.
func nameOf(f stage.Found, otherwise string) string {
	for _, o := range f.Objects {
		if p, err := cleanPath(o.Name); err == nil {
			return p
		}
	}
	return otherwise
}

// serveSentryZip answers the old upload of a zip archive.
func serveSentryZip(x *exchange) error {
	if err := x.take(); err != nil {
		return err
	}
	l, err := x.sentryLabels()
	if err != nil {
		return err
	}
	f, err := x.readForm(func(field, _ string) bool { return field == "file" })
	if err != nil {
		return err
	}
	defer f.close()
	if f.file == nil {
		return &failure{http.StatusBadRequest, "the form has no file"}
	}
	list := []*dif{}
	_, err = x.transaction(l, func(u *upload) error {
		all, err := x.expand(x.r.Context(), u, f.file, first(f.name, "upload.zip"), taking{})
		for _, s := range all {
			if d := difOf(s.Arrived, s.SHA1, x.now()); d != nil {
				list = append(list, d)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	return x.json(http.StatusCreated, list)
}

// asProGuard is the word for ProGuard mappings, which have no mark of their own.
const asProGuard = "proguard"

// isMapping reports whether a path is that of a ProGuard mapping as sentry-cli
// names it: proguard/UUID.txt.
func isMapping(path string) bool {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(path, "/"), "proguard/")
	return ok && isMappingName(rest)
}

func isMappingName(name string) bool {
	uuid, ok := strings.CutSuffix(name, ".txt")
	if !ok {
		return false
	}
	_, err := debugid.ParseGUID(uuid)
	return err == nil
}
