package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestEveryLayout adds every test file there is, asks a running server with
// curl for every path that identify prints, in the case printed, in lower and
// in upper case, and compares the bytes with those of the file or its slice.
func TestEveryLayout(t *testing.T) {
	t.Parallel()
	symtest.Tool(t, "curl")
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	roots := []string{filepath.Join(repo, "testdata")}
	material := os.Getenv("SYMDEPOT_MATERIAL")
	if material != "" {
		if _, err := os.Stat(filepath.Join(material, "public")); err == nil {
			roots = append(roots, filepath.Join(material, "public"))
		}
	}
	depot := filepath.Join(t.TempDir(), "depot")
	if code, out, errs := commandtest.Symdepot(t, depot, append([]string{"add"}, roots...)...); code != 0 {
		t.Fatalf("exit %d, want 0\n%s%s", code, out, errs)
	}
	s := commandtest.ServeDepot(t, depot)

	code, out, errs := commandtest.Symdepot(t, depot, append([]string{"identify", "--json"}, roots...)...)
	if code != 0 {
		t.Fatalf("identify: exit %d, want 0: %s", code, errs)
	}
	objects, paths := 0, map[string][]string{} // path to the hashes that may answer
	kinds := map[string]int{}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var o struct {
			display.Identified
			Error string `json:"error"`
		}
		if err := dec.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if o.Error != "" {
			continue
		}
		objects++
		kinds[o.Kind]++
		for _, ps := range o.Paths {
			for _, p := range ps {
				paths[p] = append(paths[p], o.Kind)
			}
		}
	}
	want := contents(t, depot)
	var list []string
	for p := range paths {
		list = append(list, p, strings.ToLower(p), strings.ToUpper(p))
	}
	slices.Sort(list)
	list = slices.Compact(list)
	got := curlAll(t, s.URL, list)
	for _, p := range list {
		r := got[p]
		if r.code != "200" {
			t.Errorf("%s: status %s, want %q", p, r.code, "200")
		} else if !want[r.sha] {
			t.Errorf("%s: bytes that were never added", p)
		}
	}
	// The trace of each path says that it is found.
	var traces []string
	for _, p := range list {
		traces = append(traces, "-/api/v1/trace?path="+url.QueryEscape("/"+escapeSegments(p)))
	}
	for p, l := range curlTraces(t, s.URL, traces) {
		if l.Status != 200 || l.Verdict != "found" {
			t.Errorf("%s: status %d, verdict %s, want 200 and found: %s", p, l.Status, l.Verdict, l.Says)
		}
	}
	t.Logf("%d objects of %d kinds, %d requests", objects, len(kinds), len(list))
	if len(kinds) < 14 {
		t.Errorf("only the kinds %v", kinds)
	}
	if objects < 50 || len(list) < 300 {
		t.Errorf("only %d objects and %d requests", objects, len(list))
	}
	if material != "" {
		checkExpected(t, s.URL, material)
	}
}

// escapeSegments escapes the segments of a path.
func escapeSegments(p string) string {
	segs := strings.Split(p, "/")
	for i, s := range segs {
		segs[i] = url.PathEscape(s)
	}
	return strings.Join(segs, "/")
}

// curlTraces fetches traces, by their addresses.
func curlTraces(t *testing.T, base string, addresses []string) map[string]display.Trace {
	t.Helper()
	var cfg bytes.Buffer
	for _, a := range addresses {
		cfg.WriteString("url = \"" + base + "/" + a + "\"\n")
	}
	file := filepath.Join(t.TempDir(), "traces.cfg")
	if err := os.WriteFile(file, cfg.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "curl", "-s", "-S", "--config", file).Output()
	if err != nil {
		t.Fatalf("curl: %v", err)
	}
	list := map[string]display.Trace{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var l display.Trace
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		list[l.Path] = l
	}
	if len(list) < len(addresses)*9/10 { // some paths differ in the form of their escapes only
		t.Errorf("%d traces of %d paths, want one for each", len(list), len(addresses))
	}
	return list
}

// contents lists the SHA-256 of everything that the depot holds.
func contents(t *testing.T, depot string) map[string]bool {
	t.Helper()
	code, out, errs := commandtest.Symdepot(t, depot, "show", "--json", "1")
	if code != 0 {
		t.Fatalf("show: %s, want exit code 0", errs)
	}
	all := map[string]bool{}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var l struct {
			SHA256 string `json:"sha256"`
		}
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[l.SHA256] = true
	}
}

// checkExpected asks for the paths that independent tools name, and wants
// exactly the file, or the slice, that they name them for.
func checkExpected(t *testing.T, base, material string) {
	t.Helper()
	f, err := os.Open(filepath.Join(material, "expected.tsv"))
	if err != nil {
		t.Skipf("needs the real files: %v", err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.LazyQuotes = '\t', true
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	col := map[string]int{}
	for i, name := range rows[0] {
		col[name] = i
	}
	want := map[string]string{}
	var list []string
	for _, row := range rows[1:] {
		if _, err := os.Stat(filepath.Join(material, row[col["path"]])); err != nil {
			continue
		}
		sha := row[col["sha256"]]
		for note := range strings.SplitSeq(row[col["notes"]], ";") {
			if s, ok := strings.CutPrefix(note, "slice_sha256="); ok {
				sha = s
			}
		}
		for _, name := range []string{"symstore", "ssqp", "debuginfod", "native", "unified"} {
			for p := range strings.SplitSeq(row[col[name]], ";") {
				if p == "-" || p == "" || name == "unified" && row[col["kind"]] == "wasm" && strings.Contains(p, "debuginfo") {
					continue
				}
				if strings.HasPrefix(p, "buildid/") && strings.HasSuffix(p, "executable") {
					continue // several files may share a build-id; see the ranking tests
				}
				want[p] = sha
				list = append(list, p)
			}
		}
	}
	got := curlAll(t, base, list)
	for _, p := range list {
		if r := got[p]; r.code != "200" || r.sha != want[p] {
			t.Errorf("%s: status %s, SHA-256 %s, want %s", p, r.code, r.sha, want[p])
		}
	}
	if len(list) < 100 {
		t.Errorf("only %d expected paths", len(list))
	}
	t.Logf("%d paths that independent tools name", len(list))
}

type curlAnswer struct{ code, sha string }

// curlAll fetches paths with one curl process and hashes the answers.
func curlAll(t *testing.T, base string, paths []string) map[string]curlAnswer {
	t.Helper()
	dir := t.TempDir()
	var cfg bytes.Buffer
	name := func(i int) string {
		return filepath.Join(dir, "b", hex.EncodeToString([]byte{byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	if err := os.Mkdir(filepath.Join(dir, "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i, p := range paths {
		segs := strings.Split(p, "/")
		for j, s := range segs {
			segs[j] = url.PathEscape(s)
		}
		cfg.WriteString("url = \"" + base + "/" + strings.Join(segs, "/") + "\"\noutput = \"" + filepath.ToSlash(name(i)) + "\"\n")
	}
	file := filepath.Join(dir, "curl.cfg")
	if err := os.WriteFile(file, cfg.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "curl", "-s", "-S", "--path-as-is", "--write-out", "%{http_code}\n", "--config", file).Output()
	codes := strings.Fields(string(out))
	if len(codes) != len(paths) {
		t.Fatalf("curl: %d answers to %d requests: %v; want one for each", len(codes), len(paths), err)
	}
	got := map[string]curlAnswer{}
	for i, p := range paths {
		a := curlAnswer{code: codes[i]}
		if b, err := os.ReadFile(name(i)); err == nil {
			sum := sha256.Sum256(b)
			a.sha = hex.EncodeToString(sum[:])
			_ = os.Remove(name(i))
		}
		got[p] = a
	}
	return got
}
