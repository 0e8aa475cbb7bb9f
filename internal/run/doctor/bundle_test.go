package doctor

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
)

// planted are secrets and names, each where somebody might put one.
var planted = []string{
	"planted-password", "planted-token", "planted-header", "planted-userinfo", "planted-urlpass", "planted-query", "planted-short", "planted-file",
	"planted-env", "planted-otel", "planted-client", "planted-alice", "planted-bob", "planted-carol", "planted-group", "planted-principal", "planted-cn",
	"planted-command", "planted-licence", "planted-proxy", "planted-logtoken", "planted-cookie", "planted-jwt", "planted-remote", "planted-agentpass", "planted-home",
	"sd_AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKKKLLLL", "planted-audit", "planted-tlskey", "planted-metric", "planted-who",
}

const plantedConfig = `
listen: 127.0.0.1:1
depot: DIR/depot
no_egress: true
base_url: https://symbols.example.com
upstreams:
  - {name: one, url: 'https://one.example.com/x?sig=planted-query', user: planted-userinfo, password_file: DIR/password1, headers: {X-Team: planted-header}}
  - {name: two, url: 'https://two.example.com', token_file: DIR/token}
  - {name: three, url: 'https://planted-bob:planted-urlpass@three.example.com/y'}
  - {name: four, url: 'https://four.example.com', user: reader, password_file: DIR/password}
  - https://planted-carol:planted-short@five.example.com/z
auth:
  admit: ['planted-alice@CORP.EXAMPLE']
  groups: {planted-group: ['basic:planted-who']}
  grants: [{who: ['planted-principal@CORP.EXAMPLE'], read: [Game]}]
  certificates: [{match: 'sha256:0000000000000000000000000000000000000000000000000000000000000001', name: planted-cn}]
  sign_in: {issuer: 'https://login.example.com', client_id: depot}
transcoding: {programs: ['wpt=tool --key planted-command --licence=planted-licence -pdb {pdb}']}
`

const plantedLog = `{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"request","path":"/t/sd_AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKKKLLLL/foo.pdb","who":"planted-who","remote":"planted-remote:1","agent":"x"}
time=2026-01-01T00:00:00Z level=INFO msg=request who="planted-who x" remote=planted-remote:1 status=200
level=ERROR msg="Get \"https://x:planted-urlpass@three.example.com/\": Authorization: Bearer planted-logtoken"
level=ERROR msg="Cookie: planted-cookie; password=planted-agentpass"
level=ERROR msg="cannot read /home/planted-home/file: eyJhbGciOiJIUzI1NiJ9.planted-jwt.planted-jwt"
level=ERROR msg="a transcoder cannot be used" output="unknown licence planted-licence, key planted-command"
level=INFO msg=kept-line status=200
`

// TestBundleHasNoSecrets plants secrets in every place that a bundle is made from, and
// looks for them in all files of the bundle.
func TestBundleHasNoSecrets(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("password", "planted-file\n")
	write("password1", "planted-password\n")
	write("token", "planted-token\n")
	write("audit.jsonl", "planted-audit")
	file := write("config.yaml", strings.ReplaceAll(plantedConfig, "DIR", dir))
	env := map[string]string{
		"SYMDEPOT_TOKEN": "planted-env", "OTEL_EXPORTER_OTLP_HEADERS": "api-key=planted-otel", "SYMDEPOT_AUTH_SIGN_IN_CLIENT_SECRET": "planted-client",
		"HTTPS_PROXY": "http://u:planted-proxy@proxy:3128",
	}
	var environ []string
	for k, v := range env {
		environ = append(environ, k+"="+v)
	}
	d, err := depot.Open(t.Context(), filepath.Join(dir, "depot"), depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	list, patient := Examine(t.Context(), Case{ConfigFile: file, Getenv: func(k string) string { return env[k] }, Version: "v1"})
	if patient.Config == nil {
		t.Fatalf("the configuration is not valid: %+v", list)
	}
	patient.Server.Metrics = []byte("symdepot_upstream_requests_total{upstream=\"https://x:planted-metric@one\"} 1\n")
	list = append(list, Finding{Area: "x", State: Fault, Text: "cannot connect to https://u:planted-urlpass@h with planted-env and planted-otel; -----BEGIN PRIVATE KEY----- planted-tlskey -----END PRIVATE KEY----- end"})
	var b bytes.Buffer
	bundle := Bundle{Version: "symdepot v1", Findings: list, Patient: patient, Log: write("log", plantedLog), Environ: environ, Now: time.Now()}
	err = bundle.Write(&b)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		texts[f.Name] = string(text)
		for _, p := range planted {
			if strings.Contains(string(text), p) {
				t.Errorf("%s has %q, want it left out:\n%s", f.Name, p, text)
			}
		}
	}
	// What a report needs is there.
	for name, want := range map[string]string{
		"README.txt": "Left out", "versions.txt": "symdepot v1", "config.yaml": "one.example.com", "environment.txt": "OTEL_EXPORTER_OTLP_HEADERS",
		"doctor.txt": "no_egress", "depot.json": `"migrations": [`, "metrics.txt": "symdepot_upstream_requests_total", "log.txt": "kept-line",
	} {
		if !strings.Contains(texts[name], want) {
			t.Errorf("%s has no %q:\n%s", name, want, texts[name])
		}
	}
}

// TestScrubber: what the configuration does not name is removed by its form, also from
// JSON, and from the errors of a configuration that cannot be used.
func TestScrubber(t *testing.T) {
	s := newScrubber(nil, []string{`SYMDEPOT_X_PASSWORD=planted"quoted"`})
	for _, tt := range []struct{ text, want string }{
		{`parse "https://user:planted/x@host/db": invalid port ":planted" after host`, `://***@host/db`},
		{`depot: postgres://user:planted@x@host/db`, `://***@host/db`},
		{`open C:\Users\planted\symdepot.yaml: denied`, `C:\Users\USER\symdepot.yaml: denied`},
		{`{"depot":"C:\\Users\\planted\\depot"}`, `"C:\\Users\\USER\\depot"`},
		{`{"depot":"C:\\Users\\The planted\\depot"}`, `"C:\\Users\\USER\\depot"`},
		{`open /home/planted and /var/lib/x`, `open /home/USER and /var/lib/x`},
		{`{"error":"planted\"quoted\" is wrong"}`, `{"error":"*** is wrong"}`},
		{`see https://one.example.com/x and https://two.example.com/y`, `see https://one.example.com/x and https://two.example.com/y`},
	} {
		if got := s.text(tt.text); strings.Contains(got, "planted") || !strings.Contains(got, tt.want) {
			t.Errorf("%s became %s, want %s in it", tt.text, got, tt.want)
		}
	}
	for _, line := range []string{
		`{"level":"INFO","msg":"request","error":"read tcp 10.0.0.1:8080->192.0.2.7:51234: connection reset by peer"}`,
		`level=INFO msg=request error="write tcp [fd00::1]:8080->[2001:db8::192.0.2.7]:51234: broken pipe"`,
	} {
		if got := s.logLine(line); strings.Contains(got, "192.0.2.7") || !strings.Contains(got, ":8080-") {
			t.Errorf("%s became %s, want it without the address of the client", line, got)
		}
	}
}
