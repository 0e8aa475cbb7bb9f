package uploads

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// fate is what a client is told of a file.
type fate int

const (
	unanswered fate = iota
	accepted
	refused
	leftOut // the client or the protocol says that it takes no such files
)

// answer is what a client is told of a file.
type answer struct {
	fate fate
	why  string
	// whole: the refusal concerns all files that were sent together.
	whole bool
}

// run is one run of a client.
type run struct {
	*site
	ctx     context.Context
	product string
	dir     string // a folder for the client
	// fault is the first answer that is not of the protocol.
	fault error
}

// wrong records an answer that the protocol does not have.
func (r *run) wrong(format string, args ...any) {
	if r.fault == nil {
		r.fault = fmt.Errorf(format, args...)
	}
}

// below is the path of the intake for the product.
func (r *run) below(path string) string { return "/in/" + url.PathEscape(r.product) + "/1" + path }

// do sends a request with the token, unless the header says "-".
func (r *run) do(method, path string, body io.Reader, header ...string) (status int, text []byte, h http.Header, err error) {
	if !strings.HasPrefix(path, "http") {
		path = r.url + path
	}
	req, err := http.NewRequestWithContext(r.ctx, method, path, body)
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i+1] == "-" {
			req.Header.Del(header[i])
		}
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = res.Body.Close() }() // only read
	text, err = io.ReadAll(res.Body)
	return res.StatusCode, text, res.Header, err
}

// refusal is a refusal in JSON with one member that says why, or in text if member is "".
func (r *run) refusal(what string, status int, text []byte, member string) answer {
	why := strings.TrimSpace(string(text))
	if member != "" {
		var m map[string]any
		err := json.Unmarshal(text, &m)
		why, _ = m[member].(string)
		if err != nil {
			why = ""
		}
	}
	if status < 400 || status >= 500 || why == "" {
		r.wrong("%s: status %d, %q; want a status of 4xx and why", what, status, text)
	}
	return answer{fate: refused, why: why}
}

// all gives all files the same answer.
func all(files []file, a answer) []answer {
	a.whole = a.fate == refused
	return slices.Repeat([]answer{a}, len(files))
}

// part is a part of a form.
type part struct{ field, filename string }

// form returns a multipart form.
func form(parts ...any) (body *bytes.Buffer, kind string) {
	body = new(bytes.Buffer)
	w := multipart.NewWriter(body)
	quote := strings.NewReplacer(`\`, `\`, `"`, "%22") // as browsers and curl write them
	for i := 0; i+1 < len(parts); i += 2 {
		p, _ := parts[i].(part)
		text := `form-data; name="` + p.field + `"`
		if p.filename != "" {
			text += `; filename="` + quote.Replace(p.filename) + `"`
		}
		h := textproto.MIMEHeader{"Content-Disposition": {text}}
		if p.filename != "" {
			h.Set("Content-Type", "application/octet-stream")
		}
		pw, _ := w.CreatePart(h) // a buffer takes all
		switch b := parts[i+1].(type) {
		case []byte:
			_, _ = pw.Write(b)
		case string:
			_, _ = io.WriteString(pw, b)
		}
	}
	_ = w.Close()
	return body, w.FormDataContentType()
}

// zipped returns a zip archive with the files under names.
func zipped(files []file, name func(*file) string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := range files {
		w, _ := z.Create(name(&files[i])) // a buffer takes all
		_, _ = w.Write(files[i].body)
	}
	_ = z.Close()
	return b.Bytes()
}

func plainName(f *file) string { return f.name }

// moduleKey is the path of a file in Tecken's trees: module/ID/file.
func moduleKey(f *file) string {
	id, module := claimed(f), f.wire()
	if id == "" {
		id = strings.Repeat("0", 33)
	}
	for _, o := range f.objects() {
		if o.Kind == symfile.Breakpad {
			module = o.Name
		}
	}
	return module + "/" + id + "/" + f.wire()
}

type assembling struct {
	Name    string   `json:"name"`
	DebugID string   `json:"debug_id,omitempty"`
	Chunks  []string `json:"chunks"`
}

type assembled struct {
	State   string
	Missing []string `json:"missingChunks"`
	Detail  string
}

func sha1Hex(b []byte) string {
	sum := sha1.Sum(b)
	return hex.EncodeToString(sum[:])
}

// sendSentry is what sentry-cli debug-files upload --wait does.
func sendSentry(r *run, files []file) ([]answer, error) {
	options := "/api/0/organizations/acme/chunk-upload/"
	status, text, _, err := r.do(http.MethodGet, options, nil)
	var opt struct {
		URL                                         string
		ChunkSize, ChunksPerRequest, MaxRequestSize int
	}
	if err == nil && (status != http.StatusOK || json.Unmarshal(text, &opt) != nil) {
		err = fmt.Errorf("options: %d %s", status, text)
	}
	if err != nil {
		return nil, err
	}
	chunks := map[string][]byte{}
	ask := map[string]assembling{}
	for i := range files {
		f := &files[i]
		a := assembling{Name: f.wire()}
		if o := f.objects(); len(o) > 0 && !o[0].DebugID.IsZero() {
			a.DebugID = o[0].DebugID.String()
		}
		for c := range slices.Chunk(f.body, opt.ChunkSize) {
			a.Chunks = append(a.Chunks, sha1Hex(c))
			chunks[sha1Hex(c)] = c
		}
		ask[sha1Hex(f.body)] = a
	}
	states := map[string]assembled{}
	open := ask
	for n := 0; len(open) > 0; n++ {
		got, err := r.assemble(open)
		if err != nil {
			return nil, err
		}
		var missing [][]byte
		next := map[string]assembling{}
		for sum, a := range open {
			s, ok := got[sum]
			if !ok || s.Missing == nil {
				r.wrong("the answer to assemble has no entry with missingChunks for %s", sum)
			}
			states[sum] = s
			switch {
			case s.State == "ok" || s.State == "error":
			case s.State == "not_found" && n > 0:
				r.wrong("the client ends: some uploaded files are now missing on the server")
			default:
				next[sum] = a
				for _, c := range s.Missing {
					missing = append(missing, chunks[c])
				}
			}
		}
		if err := r.sendChunks(opt.URL, missing, opt.ChunksPerRequest, opt.MaxRequestSize); err != nil {
			return nil, err
		}
		open = next
	}
	out := make([]answer, len(files))
	for i := range files {
		switch s := states[sha1Hex(files[i].body)]; s.State {
		case "ok":
			out[i] = answer{fate: accepted}
		case "error":
			out[i] = answer{fate: refused, why: s.Detail}
		}
	}
	return out, nil
}

// assemble sends one assemble request.
func (r *run) assemble(ask map[string]assembling) (map[string]assembled, error) {
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	var got map[string]assembled
	status, text, _, err := r.do(http.MethodPost, "/api/0/projects/acme/"+url.PathEscape(r.product)+"/files/difs/assemble/", bytes.NewReader(body), "Content-Type", "application/json")
	if err == nil && (status != http.StatusOK || json.Unmarshal(text, &got) != nil) {
		err = fmt.Errorf("assemble: %d %s", status, text)
	}
	return got, err
}

// sendChunks sends the chunks that the server lacks.
func (r *run) sendChunks(to string, chunks [][]byte, most, size int) error {
	for len(chunks) > 0 {
		var parts []any
		for n := 0; len(chunks) > 0 && len(parts)/2 < most && (n == 0 || n+len(chunks[0]) <= size); chunks = chunks[1:] {
			n += len(chunks[0])
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write(chunks[0]) // a buffer takes all
			_ = z.Close()
			parts = append(parts, part{field: "file_gzip", filename: sha1Hex(chunks[0])}, b.Bytes())
		}
		body, kind := form(parts...)
		if status, text, _, err := r.do(http.MethodPost, to, body, "Content-Type", kind); err != nil || status != http.StatusOK {
			return fmt.Errorf("chunks: %d %s %w", status, text, err)
		}
	}
	return nil
}

// sendSentryZip is what sentry-cli did before there were chunks.
func sendSentryZip(r *run, files []file) ([]answer, error) {
	project := "/api/0/projects/acme/" + url.PathEscape(r.product) + "/files/dsyms/"
	q := url.Values{}
	for i := range files {
		q.Add("checksums", sha1Hex(files[i].body))
	}
	var known struct{ Missing []string }
	status, text, _, err := r.do(http.MethodGet, project+"unknown/?"+q.Encode(), nil)
	if err == nil && (status != http.StatusOK || json.Unmarshal(text, &known) != nil) {
		err = fmt.Errorf("unknown: %d %s", status, text)
	}
	if err != nil {
		return nil, err
	}
	var send []file
	for i := range files {
		if slices.Contains(known.Missing, sha1Hex(files[i].body)) {
			send = append(send, files[i])
		}
	}
	out := all(files, answer{fate: accepted})
	if len(send) == 0 {
		return out, nil
	}
	body, kind := form(part{field: "file", filename: "archive.zip"}, zipped(send, plainName))
	status, text, _, err = r.do(http.MethodPost, project, body, "Content-Type", kind)
	if err != nil {
		return nil, err
	}
	var list []struct{ SHA1 string }
	var no answer
	switch {
	case status != http.StatusCreated:
		no = r.refusal("the zip archive", status, text, "detail")
		no.whole = true
	case json.Unmarshal(text, &list) != nil:
		r.wrong("the zip archive: %d %s; want a list of files", status, text)
	}
	for i := range files {
		sum := sha1Hex(files[i].body)
		if !slices.Contains(known.Missing, sum) {
			continue
		}
		out[i] = no
		if no.fate == unanswered {
			out[i] = answer{fate: leftOut}
			for _, d := range list {
				if d.SHA1 == sum {
					out[i] = answer{fate: accepted}
				}
			}
		}
	}
	return out, nil
}

// sendTecken is what curl --form symbols.zip=@symbols.zip does.
func sendTecken(r *run, files []file) ([]answer, error) {
	body, kind := form(part{field: "symbols.zip", filename: "symbols.zip"}, zipped(files, moduleKey))
	status, text, _, err := r.do(http.MethodPost, r.below("/upload/"), body, "Content-Type", kind, "Authorization", "-", "Auth-Token", r.token)
	if err != nil {
		return nil, err
	}
	if status == http.StatusCreated {
		return all(files, answer{fate: accepted}), nil
	}
	return all(files, r.refusal("the zip archive", status, text, "error")), nil
}

// sendTecken2 is what clients of version 2 do.
func sendTecken2(r *run, files []file) ([]answer, error) {
	type entry struct {
		Key  string `json:"key"`
		Size int    `json:"size"`
		MD5  string `json:"md5_hash"`
	}
	out := make([]answer, len(files))
	for first := 0; first < len(files); first += 1000 {
		list := files[first:min(len(files), first+1000)]
		var ask struct {
			Files []entry `json:"files"`
		}
		for i := range list {
			sum := md5.Sum(list[i].body)
			ask.Files = append(ask.Files, entry{moduleKey(&list[i]), len(list[i].body), hex.EncodeToString(sum[:])})
		}
		body, err := json.Marshal(ask)
		if err != nil {
			return nil, err
		}
		var got struct {
			Files []struct {
				Key    string
				Action struct {
					Type, URL, Msg  string
					ContentEncoding string `json:"content_encoding"`
				}
			}
		}
		status, text, _, err := r.do(http.MethodPost, r.below("/upload/v2/"), bytes.NewReader(body), "Content-Type", "application/json", "Authorization", "-", "Auth-Token", r.token)
		if err == nil && (status != http.StatusCreated || json.Unmarshal(text, &got) != nil || len(got.Files) != len(list)) {
			err = fmt.Errorf("upload/v2: %d %s", status, text)
		}
		if err != nil {
			return nil, err
		}
		for i, f := range got.Files {
			switch f.Action.Type {
			case "error":
				out[first+i] = answer{fate: refused, why: f.Action.Msg}
				continue
			case "upload":
			default:
				r.wrong("%s: the action %q, want upload or error", f.Key, f.Action.Type)
				continue
			}
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write(list[i].body) // a buffer takes all
			_ = z.Close()
			status, text, _, err := r.do(http.MethodPut, f.Action.URL, &b, "Content-Encoding", f.Action.ContentEncoding, "Authorization", "-")
			if err != nil {
				return nil, err
			}
			out[first+i] = answer{fate: accepted}
			if status != http.StatusOK {
				out[first+i] = r.refusal(f.Key, status, text, "error")
			}
		}
	}
	return out, nil
}

// each sends each file in a request of its own.
func each(send func(r *run, f *file) (answer, error)) func(*run, []file) ([]answer, error) {
	return func(r *run, files []file) ([]answer, error) {
		out := make([]answer, len(files))
		for i := range files {
			var err error
			if out[i], err = send(r, &files[i]); err != nil {
				return out, fmt.Errorf("%s: %w", files[i].name, err)
			}
		}
		return out, nil
	}
}

// postForm returns what sends a file as a part of a form, with the token in the query.
func postForm(path, field string) func(r *run, f *file) (answer, error) {
	return func(r *run, f *file) (answer, error) {
		return r.postFields(path, f, part{field: "product"}, r.product, part{field: field, filename: f.wire()}, f.body)
	}
}

func (r *run) postFields(path string, f *file, parts ...any) (answer, error) {
	body, kind := form(parts...)
	status, text, _, err := r.do(http.MethodPost, r.below(path)+"?key="+r.token, body, "Content-Type", kind, "Authorization", "-")
	switch {
	case err != nil:
		return answer{}, err
	case status == http.StatusOK:
		return answer{fate: accepted}, nil
	}
	return r.refusal(f.name, status, text, ""), nil
}

// symupload1 is what Breakpad's symupload on Windows does with version 1: it sends the
// fields of the MODULE record.
func symupload1(r *run, f *file) (answer, error) {
	var system, cpu, id, module string
	if _, err := fmt.Sscanf(string(f.body), "MODULE %s %s %s %s", &system, &cpu, &id, &module); err != nil {
		return answer{}, err
	}
	return r.postFields("", f, part{field: "code_file"}, module, part{field: "cpu"}, cpu, part{field: "debug_file"}, module, part{field: "debug_identifier"}, id,
		part{field: "os"}, system, part{field: "product"}, r.product, part{field: "version"}, "1", part{field: "symbol_file", filename: f.wire()}, f.body)
}

// bugsnagForm returns what bugsnag-cli sends with the token in its --upload-api-root-url: the
// file, and behind it the fields, the key of an account among them.
func bugsnagForm(path, field string) func(r *run, f *file) (answer, error) {
	return func(r *run, f *file) (answer, error) {
		body, kind := form(part{field: field, filename: f.wire()}, f.body, part{field: "apiKey"}, "0123456789abcdef0123456789abcdef",
			part{field: "sharedObjectName"}, f.wire())
		status, text, _, err := r.do(http.MethodPost, "/t/"+r.token+r.below(path), body, "Content-Type", kind, "Authorization", "-")
		switch {
		case err != nil:
			return answer{}, err
		case status == http.StatusOK:
			return answer{fate: accepted}, nil
		}
		return r.refusal(f.name, status, text, ""), nil
	}
}

// postArchive returns what sends a zip archive of the whole build in a form.
func postArchive(path, field string) func(r *run, files []file) ([]answer, error) {
	return func(r *run, files []file) ([]answer, error) {
		f := file{name: "build.zip", body: zipped(files, plainName)}
		a, err := postForm(path, field)(r, &f)
		if err != nil {
			return nil, err
		}
		return withoutOthers(files, all(files, a)), nil
	}
}

// withoutOthers says that files were left out which are no symbol files: the protocol takes
// the symbol files of an archive, and says nothing of others.
func withoutOthers(files []file, answers []answer) []answer {
	for i := range files {
		if answers[i].fate == accepted && len(files[i].objects()) == 0 {
			answers[i] = answer{fate: leftOut}
		}
	}
	return answers
}

// breakpad2 is one of Breakpad's clients of version 2 of its protocol.
type breakpad2 struct {
	coding string // Content-Encoding of the file
	// complete is the body of the last request, with the name, the id and the product.
	complete string
}

// The bodies are those of the clients' sources; only that of macOS is JSON.
var (
	symUploadLinux   = breakpad2{complete: `{ symbol_id: {debug_file: %s, debug_id: %s }, symbol_upload_type: "BREAKPAD" }`}
	symUploadWindows = breakpad2{coding: "deflate",
		complete: `{ symbol_id: {debug_file: %s, debug_id: %s }, symbol_upload_type: "BREAKPAD", metadata: {product_name: %s}, use_async_processing: true }`}
	symUploadMac = breakpad2{complete: `{"symbol_id":{"debug_file":%s,"debug_id":%s},"symbol_upload_type":"BREAKPAD","use_async_processing":"true"}`}
)

// send is what the client does.
func (c breakpad2) send(r *run, f *file) (answer, error) {
	base, key := r.below("/v1"), "?key="+r.token
	name, id := f.wire(), claimed(f)
	if o := f.objects(); len(o) > 0 {
		name = o[0].Name
	}
	member := func(text []byte, name string) string { // the client looks for this text
		_, rest, _ := strings.Cut(string(text), `"`+name+`": "`)
		v, _, _ := strings.Cut(rest, `"`)
		return v
	}
	if id != "" {
		status, text, _, err := r.do(http.MethodGet, base+"/symbols/"+url.PathEscape(name)+"/"+id+":checkStatus"+key, nil, "Authorization", "-")
		if err != nil {
			return answer{}, err
		}
		switch member(text, "status") {
		case "FOUND":
			return answer{fate: accepted}, nil
		case "MISSING":
		default:
			return r.refusal(f.name, status, text, "error"), nil
		}
	}
	status, text, _, err := r.do(http.MethodPost, base+"/uploads:create"+key, nil, "Authorization", "-")
	if err != nil {
		return answer{}, err
	}
	to, upload := member(text, "uploadUrl"), member(text, "uploadKey")
	if to == "" || upload == "" {
		return r.refusal(f.name, status, text, "error"), nil
	}
	body, coding := io.Reader(struct{ io.Reader }{bytes.NewReader(f.body)}), "-" // chunked
	if c.coding != "" {
		body, coding = bytes.NewReader(deflated(f.body)), c.coding
	}
	if status, text, _, err = r.do(http.MethodPut, to, body, "Authorization", "-", "Content-Encoding", coding); err != nil {
		return answer{}, err
	}
	if status != http.StatusOK {
		return r.refusal(f.name, status, text, "error"), nil
	}
	args := []any{quoted(name), quoted(id), quoted(r.product)}
	complete := fmt.Sprintf(c.complete, args[:strings.Count(c.complete, "%s")]...)
	if status, text, _, err = r.do(http.MethodPost, base+"/uploads/"+upload+":complete"+key, strings.NewReader(complete), "Authorization", "-", "Content-Type", "application/son"); err != nil {
		return answer{}, err
	}
	switch member(text, "result") {
	case "OK", "DUPLICATE_DATA":
		return answer{fate: accepted}, nil
	}
	return r.refusal(f.name, status, text, "error"), nil
}

// deflated compresses as the Content-Encoding deflate wants it.
func deflated(b []byte) []byte {
	var buf bytes.Buffer
	z := zlib.NewWriter(&buf)
	_, _ = z.Write(b) // a buffer takes all
	_ = z.Close()
	return buf.Bytes()
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // a string
	return string(b)
}

const nuspec = `<?xml version="1.0"?><package xmlns="http://schemas.microsoft.com/packaging/2010/07/nuspec.xsd"><metadata><id>%s</id><version>1.0.0</version><authors>a</authors><description>d</description></metadata></package>`

// nupkg returns a package with the files.
func nupkg(id string, files []file) []byte {
	list := []file{
		{name: "[Content_Types].xml", body: []byte(`<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="nuspec" ContentType="application/octet"/><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/></Types>`)},
		{name: "_rels/.rels", body: []byte(`<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Type="http://schemas.microsoft.com/packaging/2010/07/manifest" Target="/` + id + `.nuspec" Id="R1"/></Relationships>`)},
		{name: id + ".nuspec", body: fmt.Appendf(nil, nuspec, id)},
	}
	for _, f := range files {
		list = append(list, file{name: "lib/net48/" + f.name, body: f.body})
	}
	return zipped(list, plainName)
}

// sendNuGet is what dotnet nuget push does with a package of the whole build.
func sendNuGet(r *run, files []file) ([]answer, error) {
	body, kind := form(part{field: "package", filename: "package.nupkg"}, nupkg(r.product, files))
	status, text, _, err := r.do(http.MethodPut, r.below("/nuget/v2/package/"), struct{ io.Reader }{body}, "Content-Type", kind, "Authorization", "-", "X-NuGet-ApiKey", r.token)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusCreated:
		return withoutOthers(files, all(files, answer{fate: accepted})), nil
	}
	return all(files, r.refusal("the package", status, text, "")), nil
}

// putName is what curl -T does with the address of a folder.
func putName(r *run, f *file) (answer, error) { return r.put(f, f.wire()) }

// putPath sends a file to a path under which a debugger asks for it.
func putPath(r *run, f *file) (answer, error) { return r.put(f, f.name) }

// atPaths gives files the names of paths under which debuggers ask for them: if there is
// one, a path with the name of the file.
func atPaths(files []file) (out []file) {
	for i := range files {
		f := files[i]
		path := ""
		for _, o := range f.objects() {
			for _, l := range []layout.Layout{layout.SymStore, layout.BreakpadTree, layout.Unified} {
				for _, p := range l.Paths(o.Object.Object) {
					if path == "" || symfile.BaseName(path) != o.Name && symfile.BaseName(p) == o.Name {
						path = p
					}
				}
			}
		}
		if path != "" {
			f = file{name: path, body: f.body}
		}
		out = append(out, f)
	}
	return out
}

func (r *run) put(f *file, path string) (answer, error) {
	status, text, _, err := r.do(http.MethodPut, r.below("/"+escaped(path)), bytes.NewReader(f.body))
	switch {
	case err != nil:
		return answer{}, err
	case status == http.StatusCreated, status == http.StatusNoContent:
		return answer{fate: accepted}, nil
	}
	return r.refusal(f.name, status, text, "error"), nil
}

// escaped escapes the segments of a path for a URL.
func escaped(path string) string {
	list := strings.Split(path, "/")
	for i, s := range list {
		list[i] = url.PathEscape(s)
	}
	return strings.Join(list, "/")
}

// sendPyroscope is what profilecli does with an ELF file.
func sendPyroscope(r *run, f *file) (answer, error) {
	id := string(f.objects()[0].BuildID)
	service := "/debuginfo.v1alpha1.DebuginfoService/"
	call := func(method, kind string, body []byte) (int, []byte, error) {
		status, text, _, err := r.do(http.MethodPost, service+method, bytes.NewReader(body), "Content-Type", kind, "X-Scope-OrgID", r.product)
		return status, text, err
	}
	ask, err := json.Marshal(map[string]any{"file": map[string]any{"gnuBuildId": id, "name": f.wire(), "type": 1}})
	if err != nil {
		return answer{}, err
	}
	status, text, err := call("ShouldInitiateUpload", "application/json", ask)
	if err != nil {
		return answer{}, err
	}
	var yes struct {
		Should bool `json:"shouldInitiateUpload"`
		Reason string
	}
	switch {
	case status != http.StatusOK:
		return r.refusal(f.name, status, text, "message"), nil
	case json.Unmarshal(text, &yes) != nil:
		r.wrong("ShouldInitiateUpload: %d %s", status, text)
	case !yes.Should:
		return pyroscopeNo(yes.Reason), nil
	}
	if status, text, err = call("Upload/"+id, "application/octet-stream", f.body); err != nil {
		return answer{}, err
	}
	if status != http.StatusOK {
		return r.refusal(f.name, status, text, "message"), nil
	}
	if status, text, err = call("UploadFinished", "application/json", []byte(`{"gnuBuildId":"`+id+`"}`)); err != nil {
		return answer{}, err
	}
	if status != http.StatusOK {
		return r.refusal(f.name, status, text, "message"), nil
	}
	return answer{fate: accepted}, nil
}

// pyroscopeNo is the answer that the server wants no file of a build-id.
func pyroscopeNo(why string) answer {
	if strings.Contains(why, "there already") {
		return answer{fate: leftOut, why: why} // it has a file of this build-id, not this one
	}
	return answer{fate: refused, why: why}
}

// sendForm is what a browser does with the page for publishing: all files in one form, and
// what is left without those that were refused, if the person says so.
func sendForm(r *run, files []file) ([]answer, error) {
	parts := []any{part{field: "product"}, r.product, part{field: "version"}, "1"}
	for i := range files {
		parts = append(parts, part{field: "file", filename: files[i].wire()}, files[i].body)
	}
	return r.publish(files, parts)
}

// sendFormZip sends the build as an archive in the form.
func sendFormZip(r *run, files []file) ([]answer, error) {
	a, err := r.publish(files, []any{part{field: "product"}, r.product, part{field: "version"}, "1", part{field: "file", filename: "build.zip"}, zipped(files, plainName)})
	if err != nil {
		return nil, err
	}
	return withoutOthers(files, a), nil
}

func (r *run) publish(files []file, parts []any) ([]answer, error) {
	body, kind := form(parts...)
	status, text, h, err := r.do(http.MethodPost, "/-/publish", body, "Content-Type", kind)
	if err != nil {
		return nil, err
	}
	to := h.Get("Location")
	if status == http.StatusSeeOther && strings.HasPrefix(to, "/-/builds/") {
		return all(files, answer{fate: accepted}), nil
	}
	var id string
	if u, err := url.Parse(to); err == nil {
		id = u.Query().Get("stage")
	}
	if status != http.StatusSeeOther || id == "" {
		if status < 400 || status >= 500 {
			r.wrong("the form: status %d, Location %q", status, to)
		}
		return all(files, answer{fate: refused, why: pageText(text)}), nil
	}
	status, text, _, err = r.do(http.MethodGet, to, nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("GET %s: %d %s", to, status, text)
	}
	if err != nil {
		return nil, err
	}
	out := make([]answer, len(files))
	for i := range files {
		out[i] = answer{fate: accepted}
		for line := range strings.Lines(pageText(text)) {
			if strings.Contains(line, "refused") && strings.Contains(line, symfile.BaseName(files[i].wire())+": ") {
				out[i] = answer{fate: refused, why: line}
			}
		}
	}
	status, text, h, err = r.do(http.MethodPost, "/-/publish/decide", strings.NewReader(url.Values{"act": {"publish"}, "stage": {id}}.Encode()), "Content-Type", "application/x-www-form-urlencoded")
	if err == nil && (status != http.StatusSeeOther || !strings.HasPrefix(h.Get("Location"), "/-/builds/")) {
		r.wrong("the form: decide: status %d %s", status, text)
	}
	return out, err
}

// pageText returns the text of a page, an element a line.
func pageText(page []byte) string {
	var b strings.Builder
	_, text, _ := strings.Cut(string(page), "<main")
	for text != "" {
		before, rest, _ := strings.Cut(text, "<")
		tag, after, _ := strings.Cut(rest, ">")
		b.WriteString(before)
		if strings.HasPrefix(tag, "/li") || strings.HasPrefix(tag, "/p") || strings.HasPrefix(tag, "/tr") || strings.HasPrefix(tag, "/h") {
			b.WriteString("\n")
		}
		text = after
	}
	return html.UnescapeString(b.String())
}

// longest is how long one run of a client may take.
const longest = 4 * time.Minute

// way is a way of files into a depot.
type way struct {
	name string
	// tool is a program that the way needs; it is a real client then.
	tool string
	send func(r *run, files []file) ([]answer, error)
	// own: the way is a command of symdepot.
	own bool
	// takes is why the client has no such file; "" if it has. Nil: it has all files.
	takes func(f *file) string
	// prepare is what the client makes of the files of a build before it sends them.
	prepare func([]file) []file
	// slow: the way starts a process for each file, so it has no large shapes.
	slow bool
	// only are the names of the cells that a client has whose start takes seconds; nil: all.
	// The way that sends the same bytes has the others.
	only []string
	// forgets: the name of a file is in an earlier request than the file, and another server
	// does not know it.
	forgets bool
	// cannot are the reasons why cells do not exist, by the name of a shape or a manner.
	cannot map[string]string
}

func buildIDsOnly(f *file) string {
	if o := f.objects(); len(o) == 0 || o[0].BuildID == "" {
		return "the protocol takes ELF files with a GNU build-id"
	}
	return ""
}

const (
	noServer   = "no server takes part: the command writes into the depot, and its end at any point is a part of make torture"
	oneRequest = "the client sends one request, which it repeats as a whole: the manner retried"
)

var ways = []way{
	{name: "Sentry", send: sendSentry, prepare: slicesOf},
	{name: "Sentry, zip", send: sendSentryZip},
	{name: "Tecken 1", send: sendTecken, cannot: map[string]string{"resumed by another server": oneRequest}},
	{name: "Tecken 2", send: sendTecken2},
	{name: "Breakpad 1", send: each(postForm("", "symbol_file"))},
	{name: "Breakpad 1, zip", send: postArchive("", "symbol_file"), cannot: map[string]string{"resumed by another server": oneRequest}},
	{name: "Breakpad 1 of Windows", send: each(symupload1), takes: breakpadOnly},
	{name: "Breakpad 2", send: each(symUploadLinux.send)},
	{name: "Breakpad 2 of Windows", send: each(symUploadWindows.send)},
	{name: "Breakpad 2 of macOS", send: each(symUploadMac.send)},
	{name: "BugSnag dsym", send: each(bugsnagForm("/dsym", "dsym"))},
	{name: "BugSnag dsym, zip", send: postArchive("/dsym", "dsym"), cannot: map[string]string{"resumed by another server": oneRequest}},
	{name: "BugSnag ndk-symbol", send: each(bugsnagForm("/ndk-symbol", "soFile"))},
	{name: "NuGet", send: sendNuGet, cannot: map[string]string{"resumed by another server": oneRequest}},
	{name: "PUT of a name", send: each(putName)},
	{name: "PUT of a path", send: each(putPath), prepare: atPaths},
	{name: "Pyroscope", send: each(sendPyroscope), takes: buildIDsOnly, forgets: true},
	{name: "form of the browser", send: sendForm, cannot: map[string]string{"resumed by another server": oneRequest}},
	{name: "form of the browser, zip", send: sendFormZip, cannot: map[string]string{"resumed by another server": oneRequest}},
	{name: "push", own: true, send: sendPush},
	{name: "add", own: true, send: sendAdd, cannot: map[string]string{"resumed by another server": noServer}},
	{name: "import of a folder", own: true, send: sendImport, cannot: map[string]string{"resumed by another server": noServer}},
	{name: "import of a unified tree", own: true, send: sendTree, prepare: treeOf, cannot: map[string]string{"resumed by another server": noServer}},
	{name: "import of a bundle", own: true, send: sendBundle, cannot: map[string]string{"resumed by another server": noServer}},
	{name: "sentry-cli 3", tool: "sentry-cli-3", send: sentryCLI("sentry-cli-3"), prepare: slicesOf},
	{name: "sentry-cli 2", tool: "sentry-cli-2", send: sentryCLI("sentry-cli-2"), prepare: slicesOf},
	{name: "sym_upload 1", tool: "sym_upload", send: each(symUpload1), slow: true, takes: breakpadOnly},
	{name: "sym_upload 2", tool: "sym_upload", send: each(symUpload2), slow: true, takes: withDebugID},
	{name: "bugsnag-cli breakpad", tool: "bugsnag-cli", send: each(bugsnagBreakpad), slow: true, takes: breakpadOnly},
	{name: "bugsnag-cli android-ndk", tool: "bugsnag-cli", send: each(bugsnagNDK), prepare: symbolsOfNDK, slow: true, takes: extractedByNDK},
	{name: "client of Pyroscope", tool: "pyroscope-upload", send: pyroscopeUpload, takes: buildIDsOnly, forgets: true},
	{name: "nuget.exe", tool: "nuget-mono", send: nugetExe, slow: true, only: []string{"base names in two folders", "a file without symbols", "retried"}},
	{name: "curl -T", tool: "curl", send: each(curlPut), slow: true},
	{name: "curl -F", tool: "curl", send: each(curlForm), slow: true},
}
