package uploads

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// write writes the build to a folder.
func (r *run) write(files []file) (dir string, err error) {
	dir, err = os.MkdirTemp(r.dir, "build")
	for i := range files {
		if err == nil {
			p := filepath.Join(dir, filepath.FromSlash(files[i].name))
			err = errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, files[i].body, 0o600))
		}
	}
	return dir, err
}

// event is a line that push, add or import print with --json.
type event struct {
	Event  string
	Path   string
	SHA256 string
	Reason string
}

// events returns the answers of a command by its events.
func events(dir string, files []file, text string, code int, err error) ([]answer, error) {
	out := make([]answer, len(files))
	for dec := json.NewDecoder(strings.NewReader(text)); ; {
		var e event
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		var a answer
		switch e.Event {
		case "found", "added", "known":
			if code == 0 || code == 8 {
				a = answer{fate: accepted}
			}
		case "refused":
			a = answer{fate: refused, why: e.Reason}
		case "skipped":
			a = answer{fate: leftOut, why: e.Reason}
		default:
			continue
		}
		for i := range files {
			if e.is(dir, &files[i]) {
				out[i] = a
			}
		}
	}
	if err != nil && !slices.ContainsFunc(out, func(a answer) bool { return a.fate != unanswered }) {
		return all(files, answer{fate: refused, why: err.Error()}), nil // the exit code says that nothing was stored
	}
	return out, nil
}

// is reports whether the event is that of a file. Where it tells the path in the
// transaction, it has a hash.
func (e *event) is(dir string, f *file) bool {
	if e.SHA256 != "" {
		return e.SHA256 == blob.Sum(f.body).String() && symfile.BaseName(e.Path) == symfile.BaseName(f.name)
	}
	return e.Path == filepath.Join(dir, filepath.FromSlash(f.name))
}

// sendPush is symdepot push.
func sendPush(r *run, files []file) ([]answer, error) {
	dir, err := r.write(files)
	if err != nil {
		return nil, err
	}
	out, code, err := symdepot(r.ctx, append([]string{"SYMDEPOT_TOKEN=" + r.token}, r.env...), "push", "--server", r.url, "--product", r.product, "--version", "1", "--partial", "--json", dir)
	return events(dir, files, out, code, err)
}

// sendAdd is symdepot add.
func sendAdd(r *run, files []file) ([]answer, error) {
	dir, err := r.write(files)
	if err != nil {
		return nil, err
	}
	out, code, err := symdepot(r.ctx, r.env, "add", "--depot", r.depot, "--product", r.product, "--version", "1", "--json", dir)
	return events(dir, files, out, code, err)
}

// sendImport is symdepot import of a folder without keys.
func sendImport(r *run, files []file) ([]answer, error) {
	dir, err := r.write(files)
	if err != nil {
		return nil, err
	}
	out, code, err := symdepot(r.ctx, r.env, "import", "--depot", r.depot, "--product", r.product, "--layout", "flat", "--json", dir)
	answers, err := events(dir, files, out, code, err)
	if err != nil {
		return nil, err
	}
	// Of equal files one is told of.
	for i, k := range twins(files) {
		if answers[i].fate == unanswered && answers[k].fate == accepted {
			answers[i] = answers[k]
		}
	}
	return answers, nil
}

// twins returns for each file that has the name and bytes of others the last of them.
func twins(files []file) map[int]int {
	last := map[string]int{}
	key := func(f *file) string { return filepath.Base(f.name) + "\x00" + string(f.body) }
	for i := range files {
		last[key(&files[i])] = i
	}
	out := map[int]int{}
	for i := range files {
		if k := last[key(&files[i])]; k != i {
			out[i], out[k] = k, i
		}
	}
	return out
}

// treeOf makes a unified tree of a build: one file at each path.
func treeOf(files []file) (out []file) {
	have := map[string]bool{}
	for _, f := range slicesOf(files) {
		for _, o := range f.objects() {
			for _, p := range layout.Unified.Paths(o.Object.Object)[:1] {
				if !have[p] {
					have[p] = true
					out = append(out, file{name: p, body: f.body})
				}
			}
		}
	}
	return out
}

// sendTree is symdepot import of a unified tree.
func sendTree(r *run, files []file) ([]answer, error) {
	dir, err := r.write(files)
	if err != nil {
		return nil, err
	}
	out, code, err := symdepot(r.ctx, r.env, "import", "--depot", r.depot, "--product", r.product, "--layout", "unified", "--json", dir)
	return events(dir, files, out, code, err)
}

// sendBundle adds the build to another depot, and carries its transaction over in a bundle.
func sendBundle(r *run, files []file) ([]answer, error) {
	other, err := os.MkdirTemp(r.dir, "other")
	if err != nil {
		return nil, err
	}
	from := *r
	from.site = &site{depot: filepath.Join(other, "depot")}
	answers, err := sendAdd(&from, files)
	if err != nil {
		return nil, err
	}
	archive := filepath.Join(other, "bundle.zip")
	if _, _, err := symdepot(r.ctx, from.env, "bundle", "--depot", from.depot, "--tx", "1", archive); err != nil {
		return nil, err
	}
	out, code, err := symdepot(r.ctx, r.env, "import", "--depot", r.depot, "--unsigned", "--json", archive)
	switch {
	case code < 0:
		return nil, err
	case code > 0:
		return all(files, answer{fate: refused, why: err.Error()}), nil
	}
	// The bundle is told of as a whole.
	var sum struct{ Builds, Before, Refused, Missing int }
	if err := json.Unmarshal([]byte(out), &sum); err != nil || sum.Builds+sum.Before != 1 || sum.Refused+sum.Missing > 0 {
		r.wrong("import of a bundle: %s, %v; want one build, and no file refused or missing", out, err)
	}
	z, err := zip.OpenReader(archive)
	if err != nil {
		return nil, err
	}
	return answers, z.Close()
}

// client runs a real client and returns its output and exit code.
func (r *run) client(env []string, dir, program string, args ...string) (out string, code int, err error) {
	ctx, cancel := context.WithTimeout(r.ctx, longest)
	defer cancel()
	if p := filepath.Join(os.Getenv("SYMDEPOT_PEERS"), program); exists(p) {
		program = p
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "no_proxy=127.0.0.1", "LC_ALL=C.UTF-8"}, env...)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return "", -1, fmt.Errorf("%s: %w", program, err)
	}
	return string(text), cmd.ProcessState.ExitCode(), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// told is a line of sentry-cli about a file.
var told = regexp.MustCompile(`(?m)^\s*(OK|UPLOADED|ERROR) ([0-9a-f-]+) ?(.*(?:\n\s{8,}.*)*)`)

// sentryCLI returns what runs sentry-cli of one generation.
func sentryCLI(program string) func(r *run, files []file) ([]answer, error) {
	return func(r *run, files []file) ([]answer, error) {
		dir, err := r.write(fatAgain(files))
		if err != nil {
			return nil, err
		}
		text, code, err := r.client([]string{"SENTRY_DISABLE_UPDATE_CHECK=true", "SENTRY_HTTP_MAX_RETRIES=1"}, r.dir, program,
			"--url", r.url, "--auth-token", r.token, "debug-files", "upload", "--org", "acme", "--project", r.product, "--wait", dir)
		if err != nil {
			return nil, err
		}
		stored, errors := map[debugid.ID]int{}, map[debugid.ID]string{}
		for _, m := range told.FindAllStringSubmatch(text, -1) {
			id, err := debugid.Parse(m[2])
			if err != nil {
				return nil, fmt.Errorf("sentry-cli prints the id %q: %w", m[2], err)
			}
			if m[1] == "ERROR" {
				errors[id] = m[3]
			} else {
				stored[id]++
			}
		}
		if (code != 0) != (len(errors) > 0) {
			return nil, fmt.Errorf("sentry-cli: exit code %d\n%s", code, text)
		}
		// The client prints no line for a file that the server says it has.
		n := 0
		if m := found.FindStringSubmatch(text); m != nil {
			n, _ = strconv.Atoi(m[1]) // digits
		}
		return sentryAnswers(files, code == 0, n, stored, errors), nil
	}
}

// found is how many files sentry-cli has found.
var found = regexp.MustCompile(`Found (\d+) debug information file`)

// sentryAnswers says what sentry-cli has printed of each file: files without anything that
// Sentry uses are left out, and files of one id are counted. good: it has ended well.
func sentryAnswers(files []file, good bool, found int, stored map[debugid.ID]int, errors map[debugid.ID]string) []answer {
	contents := map[debugid.ID]map[blob.Ref]bool{}
	all := 0
	for i := range files {
		if o := files[i].objects(); len(o) > 0 && files[i].useful() {
			if contents[o[0].DebugID] == nil {
				contents[o[0].DebugID] = map[blob.Ref]bool{}
			}
			contents[o[0].DebugID][o[0].sum] = true
			all++ // slicesOf has made them unique
		}
	}
	out := make([]answer, len(files))
	for i := range files {
		o := files[i].objects()
		if len(o) == 0 || !files[i].useful() {
			out[i] = answer{fate: leftOut}
			continue
		}
		id := o[0].DebugID
		switch {
		case good && found == all || stored[id] == len(contents[id]):
			out[i] = answer{fate: accepted}
		case errors[id] != "":
			out[i] = answer{fate: refused, why: errors[id]}
		}
	}
	return out
}

// fatAgain puts files beside each other that were slices of one: the client finds them
// either way.
func fatAgain(files []file) []file {
	seen := map[string]int{}
	out := slices.Clone(files)
	for i := range out {
		seen[out[i].name]++
		if n := seen[out[i].name]; n > 1 {
			out[i].name = filepath.ToSlash(filepath.Join(filepath.Dir(out[i].name), strconv.Itoa(n), filepath.Base(out[i].name)))
		}
	}
	return out
}

// clientRefusal is the refusal of a client that ends with an error.
func (r *run) clientRefusal(text string, code int) answer {
	if code == 0 || strings.TrimSpace(text) == "" {
		r.wrong("the client ends with the exit code %d and says %q; want an error that it tells", code, text)
	}
	return answer{fate: refused, why: text}
}

func breakpadOnly(f *file) string {
	if o := f.objects(); len(o) == 0 || o[0].Kind != symfile.Breakpad {
		return "the client reads the MODULE record of the file"
	}
	return ""
}

func withDebugID(f *file) string {
	switch {
	case claimed(f) == "":
		return "the client wants the debug id of the file"
	case strings.Contains(f.wire(), " "):
		return "the client does not escape the name in its URL"
	}
	return ""
}

// symUpload1 is Breakpad's sym_upload.
func symUpload1(r *run, f *file) (answer, error) {
	dir, err := r.write([]file{*f})
	if err != nil {
		return answer{}, err
	}
	text, code, err := r.client(nil, r.dir, "sym_upload", filepath.Join(dir, filepath.FromSlash(f.name)), r.url+r.below("")+"?key="+r.token)
	if err != nil || code == 0 && strings.Contains(text, "Successfully sent") {
		return answer{fate: accepted}, err
	}
	return r.clientRefusal(text, code), nil
}

// symUpload2 is Breakpad's sym_upload with version 2 of the protocol.
func symUpload2(r *run, f *file) (answer, error) {
	dir, err := r.write([]file{*f})
	if err != nil {
		return answer{}, err
	}
	args := []string{"-p", "sym-upload-v2", "-k", r.token}
	if breakpadOnly(f) != "" {
		args = append(args, "-t", map[symfile.Kind]string{symfile.ELF: "elf", symfile.PE: "pe", symfile.PDB: "pdb", symfile.MachO: "macho"}[f.objects()[0].Kind], "-c", filepath.Base(f.wire()), "-i", claimed(f))
	}
	text, code, err := r.client(nil, r.dir, "sym_upload", append(args, filepath.Join(dir, filepath.FromSlash(f.name)), r.url+r.below(""))...)
	if err != nil || code == 0 {
		return answer{fate: accepted}, err
	}
	return r.clientRefusal(text, code), nil
}

// bugsnagBreakpad is bugsnag-cli with a file of Breakpad: its key is in the query.
func bugsnagBreakpad(r *run, f *file) (answer, error) {
	return r.bugsnag(f, "", "breakpad", "--api-key", r.token)
}

// bugsnagNDK is bugsnag-cli with what it has made of a library of Android. It sends its key
// behind the file, so the token is in the address.
func bugsnagNDK(r *run, f *file) (answer, error) {
	return r.bugsnag(f, "/t/"+r.token, "android-ndk", "--api-key", "0123456789abcdef0123456789abcdef", "--application-id", "org.example.app")
}

func (r *run) bugsnag(f *file, prefix, kind string, args ...string) (answer, error) {
	dir, err := r.write([]file{*f})
	if err != nil {
		return answer{}, err
	}
	args = append([]string{"upload", kind, "--upload-api-root-url", r.url + prefix + r.below("")}, args...)
	text, code, err := r.client(nil, r.dir, "bugsnag-cli", append(args, filepath.Join(dir, filepath.FromSlash(f.name)))...)
	if err != nil || code == 0 && strings.Contains(text, "Uploaded ") {
		return answer{fate: accepted}, err
	}
	return r.clientRefusal(text, code), nil
}

// symbolSuffix is how bugsnag-cli names what it makes of a library with the NDK's objcopy. It
// sends files of such names as they are.
const symbolSuffix = ".so.sym"

// symbolsOfNDK names the ELF files of a build so that bugsnag-cli sends them.
func symbolsOfNDK(files []file) (out []file) {
	for _, f := range files {
		out = append(out, file{name: f.name + symbolSuffix, body: f.body, raw: f.raw})
	}
	return out
}

func extractedByNDK(f *file) string {
	switch o := f.objects(); {
	case len(o) == 0 || o[0].Kind != symfile.ELF:
		return "the client takes libraries"
	case len(f.wire())+len(symbolSuffix) > 255:
		return "the name that the client gives is too long for a file"
	}
	return ""
}

// nugetExe is NuGet's client under Mono.
func nugetExe(r *run, files []file) ([]answer, error) {
	name := filepath.Join(r.dir, r.product+".1.0.0.nupkg")
	if err := os.WriteFile(name, nupkg(r.product, files), 0o600); err != nil {
		return nil, err
	}
	text, code, err := r.client(nil, r.dir, "nuget-mono", "push", name, r.token, "-Source", r.url+r.below("/nuget/v3/index.json"), "-NonInteractive")
	switch {
	case err != nil:
		return nil, err
	case code == 0 && strings.Contains(text, "was pushed"):
		return withoutOthers(files, all(files, answer{fate: accepted})), nil
	}
	return all(files, r.clientRefusal(text, code)), nil
}

// pyroscopeUpload is the client that Pyroscope generates for its protocol.
func pyroscopeUpload(r *run, files []file) ([]answer, error) {
	dir, err := r.write(files)
	if err != nil {
		return nil, err
	}
	args := []string{"-url", r.url, "-token", r.token, "-tenant", r.product}
	for i := range files {
		args = append(args, string(files[i].objects()[0].BuildID)+"="+filepath.Join(dir, filepath.FromSlash(files[i].name)))
	}
	text, code, err := r.client(nil, r.dir, "pyroscope-upload", args...)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if err != nil || code != 0 || len(lines) != len(files) {
		return nil, errors.Join(err, fmt.Errorf("pyroscope-upload: exit code %d, want 0 and a line for each of %d files: %s", code, len(files), text))
	}
	out := make([]answer, len(files))
	for i, line := range lines {
		switch word, why, _ := strings.Cut(line, " "); word {
		case "OK":
			out[i] = answer{fate: accepted}
		case "NO":
			out[i] = pyroscopeNo(why)
		default:
			out[i] = answer{fate: refused, why: why}
		}
	}
	return out, nil
}

// curlPut is curl -T.
func curlPut(r *run, f *file) (answer, error) {
	dir, err := r.write([]file{*f})
	if err != nil {
		return answer{}, err
	}
	return r.curl("-H", "Authorization: Bearer "+r.token, "-T", filepath.Join(dir, filepath.FromSlash(f.name)), r.url+r.below("/"))
}

// curlForm is curl -F.
func curlForm(r *run, f *file) (answer, error) {
	dir, err := r.write([]file{*f})
	if err != nil {
		return answer{}, err
	}
	return r.curl("-F", "symbol_file=@"+strconv.Quote(filepath.Join(dir, filepath.FromSlash(f.name))), r.url+r.below("")+"?key="+r.token)
}

func (r *run) curl(args ...string) (answer, error) {
	text, code, err := r.client(nil, r.dir, "curl", append([]string{"-sS", "-w", "\n%{http_code}"}, args...)...)
	if err != nil || code != 0 {
		return answer{}, errors.Join(err, fmt.Errorf("curl: exit code %d: %s", code, text))
	}
	i := strings.LastIndex(text, "\n")
	status := text[i+1:]
	if strings.HasPrefix(status, "2") {
		return answer{fate: accepted}, nil
	}
	if !strings.HasPrefix(status, "4") {
		r.wrong("curl: %s", text)
	}
	return answer{fate: refused, why: text[:i]}, nil
}
