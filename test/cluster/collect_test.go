package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

const pyroscopeURL = "/debuginfo.v1alpha1.DebuginfoService/"

// formOf returns the form of Breakpad's first protocol.
func formOf(t *testing.T, name string, body []byte) (ctype string, form []byte) {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	w, err := m.CreateFormFile("symbol_file", name)
	if err == nil {
		_, err = w.Write(body)
	}
	if err != nil || m.Close() != nil {
		t.Fatal(err)
	}
	return m.FormDataContentType(), b.Bytes()
}

// collected returns the objects of the transactions of a product by their version and
// class.
func collected(t *testing.T, list string, product string) map[string][]int {
	t.Helper()
	all := map[string][]int{}
	for dec := json.NewDecoder(strings.NewReader(list)); dec.More(); {
		var tx struct {
			Product, Version, Class string
			Objects                 int `json:"files"`
			Collecting              bool
		}
		if err := dec.Decode(&tx); err != nil {
			t.Fatal(err)
		}
		if tx.Product == product {
			all[tx.Version+"/"+tx.Class] = append(all[tx.Version+"/"+tx.Class], tx.Objects)
			if !tx.Collecting {
				t.Errorf("the build of %s %s %s does not collect any more", tx.Product, tx.Version, tx.Class)
			}
		}
	}
	return all
}

// TestCollectUploads: 200 files that come one by one are one transaction, of which
// each file is visible at once, also if the server is killed in between.
func TestCollectUploads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := map[string]string{"SYMDEPOT_DEPOT": filepath.Join(dir, "depot"), "PATH": os.Getenv("PATH"), "HOME": dir}
	if code, _, errs := commandtest.Symdepot(t, env["SYMDEPOT_DEPOT"], "add", "--product", "other", "../../testdata/pe"); code != 0 {
		t.Fatalf("add: exit %d, want 0: %s", code, errs)
	}
	_, out, _ := commandtest.Symdepot(t, env["SYMDEPOT_DEPOT"], "token", "new", "--name", "ci", "--scope", "read", "--scope", "write")
	token := strings.TrimSpace(out)
	var srv *commandtest.Serving
	restart := func() {
		t.Helper()
		if srv != nil {
			_ = srv.Cmd.Process.Kill()
			_ = srv.Cmd.Wait()
		}
		var err error
		if srv, err = commandtest.StartServe(func(k string) string { return env[k] }, dir, "--auth"); err != nil {
			t.Fatal(err)
		}
	}
	restart()
	defer func() {
		if err := srv.Stop(); err != nil {
			t.Errorf("serve: %v\n%s", err, srv.Log.String())
		}
	}()
	const files = 200
	for i := range files {
		if i == files/2 {
			restart()
		}
		body := fmt.Appendf(nil, "MODULE Linux x86_64 %s lib%d.so\nPUBLIC 1000 0 f%d\n", commandtest.SymID(7, i), i, i)
		if i%2 == 0 {
			commandtest.Sends(t, "PUT", fmt.Sprintf("%s/in/Game/1/lib%d.so.sym", srv.URL, i), token, "", body, 201, "")
		} else {
			ctype, form := formOf(t, fmt.Sprintf("lib%d.so.sym", i), body)
			commandtest.Sends(t, "POST", srv.URL+"/in/Game/1", token, ctype, form, 200, "")
		}
		if i%50 == 0 {
			commandtest.Sends(t, "GET", fmt.Sprintf("%s/lib%d.so/%s/lib%d.so.sym", srv.URL, i, commandtest.SymID(7, i), i), token, "", nil, 200, fmt.Sprintf("f%d", i))
		}
	}
	commandtest.Sends(t, "PUT", srv.URL+"/in/Game/1/other.so.sym?class=nightly", token, "", fmt.Appendf(nil, "MODULE Linux x86_64 %s other.so\nPUBLIC 1000 0 f\n", commandtest.SymID(8, 1)), 201, "")
	// The steps of Pyroscope, with a kill between any two.
	elf := commandtest.Testdata(t, "elf/prog-sha1")
	id := "adac45aa231bba3143d7af433767c61f31021c16"
	call := func(method, ctype string, body []byte, status int, words string) {
		t.Helper()
		commandtest.Sends(t, "POST", srv.URL+pyroscopeURL+method+"?product=Game&version=1", token, ctype, body, status, words)
	}
	call("UploadFinished", "application/json", fmt.Appendf(nil, `{"gnuBuildId":%q}`, id), 412, "failed_precondition")
	call("ShouldInitiateUpload", "application/json", fmt.Appendf(nil, `{"file":{"gnuBuildId":%q,"name":"prog"}}`, id), 200, `"shouldInitiateUpload":true`)
	restart()
	call("UploadFinished", "application/json", fmt.Appendf(nil, `{"gnuBuildId":%q}`, id), 412, "failed_precondition")
	call("Upload/"+id, "", elf, 200, "")
	restart()
	call("UploadFinished", "application/json", fmt.Appendf(nil, `{"gnuBuildId":%q}`, id), 200, "{}")
	// Those of Breakpad's second protocol.
	r, err := http.Post(srv.URL+"/in/Game/1/v1/uploads:create?key="+token, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var made struct{ UploadKey string }
	err = json.NewDecoder(r.Body).Decode(&made)
	_ = r.Body.Close()
	if err != nil || made.UploadKey == "" {
		t.Fatalf("create: status %d, %v; want an upload key", r.StatusCode, err)
	}
	commandtest.Sends(t, "POST", srv.URL+"/in/Game/1/v1/uploads/"+made.UploadKey+":complete?key="+token, token, "", []byte("{}"), 400, "no file was sent")
	restart()
	commandtest.Sends(t, "PUT", srv.URL+"/in/Game/1/v1/uploads/"+made.UploadKey, token, "", fmt.Appendf(nil, "MODULE Linux x86_64 %s second.so\nPUBLIC 1000 0 f\n", commandtest.SymID(9, 1)), 200, "")
	restart()
	complete := fmt.Appendf(nil, "{ symbol_id: {debug_file: \"second.so\", debug_id: %q }, symbol_upload_type: \"BREAKPAD\" }", commandtest.SymID(9, 1))
	commandtest.Sends(t, "POST", srv.URL+"/in/Game/1/v1/uploads/"+made.UploadKey+":complete?key="+token, token, "", complete, 200, `"result": "OK"`)
	commandtest.Sends(t, "POST", srv.URL+"/in/Game/1/v1/uploads/"+made.UploadKey+":complete?key="+token, token, "", complete, 404, "")
	if left, err := filepath.Glob(filepath.Join(env["SYMDEPOT_DEPOT"], "uploads", "*-*")); len(left) > 0 || err != nil {
		t.Errorf("files that are left: %q (%v), want none", left, err)
	}
	_, list, _ := commandtest.Symdepot(t, env["SYMDEPOT_DEPOT"], "list", "--json")
	if got := fmt.Sprint(collected(t, list, "Game")); got != fmt.Sprintf("map[1/:[%d] 1/nightly:[1]]", files+2) {
		t.Errorf("builds of Game by version and class, with their objects: %s; want one of %d and one of 1", got, files+2)
	}
}

// TestNodesCollect: files that come one by one to three servers of one depot are one
// transaction, too.
func TestNodesCollect(t *testing.T) {
	t.Parallel()
	c := commandtest.NewClusterWith(t, 3, func(int) []string { return []string{"--auth"} })
	token, _, _ := strings.Cut(c.Run(t, "token", "new", "--name", "ci", "--scope", "write", "--scope", "read", "--product", "app"), "\n")
	b := commandtest.NewBalancer(t)
	b.Reset(c.Nodes)
	const files = 30
	for i := range files {
		body := fmt.Appendf(nil, "MODULE Linux x86_64 %s lib%d.so\nPUBLIC 1000 0 f%d\n", commandtest.SymID(7, i), i, i)
		commandtest.Sends(t, "PUT", fmt.Sprintf("%s/in/app/1/lib%d.so.sym", b.URL, i), token, "", body, 201, "")
	}
	elf := commandtest.Testdata(t, "elf/prog-sha1")
	id := "adac45aa231bba3143d7af433767c61f31021c16"
	call := func(method, ctype string, body []byte, words string) {
		t.Helper()
		commandtest.Sends(t, "POST", b.URL+pyroscopeURL+method+"?product=app&version=1", token, ctype, body, 200, words)
	}
	call("ShouldInitiateUpload", "application/json", fmt.Appendf(nil, `{"file":{"gnuBuildId":%q,"name":"prog"}}`, id), `"shouldInitiateUpload":true`)
	call("Upload/"+id, "", elf, "")
	call("UploadFinished", "application/json", fmt.Appendf(nil, `{"gnuBuildId":%q}`, id), "{}")
	if got := fmt.Sprint(collected(t, c.Run(t, "list", "--json"), "app")); got != fmt.Sprintf("map[1/:[%d]]", files+1) {
		t.Errorf("builds of app by version and class, with their objects: %s; want one of %d", got, files+1)
	}
}
