package main

import (
	"bytes"
	"encoding"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/bucket"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/upstream"
	"github.com/symdepot/symdepot/layout"
)

var updateDocs = flag.Bool("update-docs", false, "write the tables of docs/config.md anew")

func noEnv(string) string { return "" }

// conf loads a configuration from text.
func conf(t *testing.T, text string, env map[string]string) (*Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "symdepot.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return loadConfig(path, func(k string) string { return env[k] })
}

func TestConfigDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "{}", "---\n", "listen:\nupstreams:\n"} {
		c, err := conf(t, text, nil)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if c.Listen != "127.0.0.1:8080" || !c.Log.Requests || c.Log.Format != "auto" || c.FilePath != "name" || c.Public || len(c.Upstreams) != 0 {
			t.Errorf("%q: %+v", text, c)
		}
		if got, want := c.lifetimes(), (depot.Lifetimes{Absent: time.Hour, Forbidden: 24 * time.Hour, Timeout: time.Minute, Broken: 10 * time.Minute, TooLarge: 24 * time.Hour}); got != want {
			t.Errorf("%+v", got)
		}
		if got, want := c.limits(), (depot.Limits{NextRank: 300 * time.Millisecond, FirstByte: 3 * time.Second, Stall: 10 * time.Second, MinRate: 16 << 10, MaxBytes: 16 << 30, Fetches: 64}); got != want {
			t.Errorf("%+v", got)
		}
	}
	c, err := loadConfig("", noEnv)
	if err != nil || c.Listen != "127.0.0.1:8080" {
		t.Error(err)
	}
	if _, err := loadConfig(filepath.Join(t.TempDir(), "none.yaml"), noEnv); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

const fullConfig = `
depot: /var/lib/symdepot
listen: 0.0.0.0:80
public: yes
hosts: [sym.example]
two_tier: true
stores:
  - /srv/a,layout=unified
  - {dir: /srv/b}
pointer_roots:
  - \\server\share=/mnt/share
log: {format: json, requests: false}
allow_networks: [10.0.0.0/8, "fd00::1"]
upstreams:
  - microsoft
  - https://sym.example.org/x,layout=ssqp,rank=2,name=x
  - preset: nuget
    rank: 1
    url: http://mirror.corp/nuget
    never_ask: ["our*"]
  - name: corp
    url: https://sym.corp.example
    layout: symstore
    casing: lowercase
    two_tier: no
    product: windows
    kinds: [pdb, pe]
    executables: false
    compressed: false
    pointers: true
    headers: {X-Team: tools}
    user: reader
    password: pass
    concurrency: 3
    max_bytes: 1.5GiB
    timeouts: {header: 20s}
    breaker: {failures: 7, pause: 1m}
  - name: s3
    url: s3://bucket/prefix?region=eu-central-1
    layout: unified
    bucket: {auth: keys, access_key: AK, secret_key: geheim}
  - name: disk
    folder: /mnt/archive
fetch: {next_rank: 1s, at_once: 8}
misses: {absent: 0s, broken: 2d}
cache:
  max_bytes: 100GB
  max_unused: 90d
  per_source: {microsoft: 50GiB}
`

func TestConfigFull(t *testing.T) {
	c, err := conf(t, fullConfig, map[string]string{"SYMDEPOT_UPSTREAM_S3_SECRET_KEY": "other"})
	if err != nil {
		t.Fatal(err)
	}
	if !c.Public || c.Stores[0].Layout != "unified" || c.Stores[1].Dir != "/srv/b" || c.PointerRoots[0].Prefix != `\\server\share` {
		t.Errorf("%+v", c)
	}
	if l := c.lifetimes(); l.Absent >= 0 || l.Broken != 48*time.Hour || l.Timeout != time.Minute {
		t.Errorf("%+v", l)
	}
	if l := c.cacheLimits(); l.MaxBytes != 1e11 || l.MaxUnused != 90*24*time.Hour || l.PerSource["microsoft"] != 50<<30 {
		t.Errorf("%+v", l)
	}
	all, err := c.specs()
	if err != nil {
		t.Fatal(err)
	}
	far, err := c.open(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	var got []string
	for _, u := range far.far {
		got = append(got, fmt.Sprintf("%s %d %s", u.Source.Name(), u.Rank, u.Product))
	}
	want := []string{"microsoft 0 ", "x 2 ", "nuget 1 ", "corp 0 windows", "s3 0 ", "disk 0 "}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if w := strings.Join(c.warnings(all), "\n"); !strings.Contains(w, "disk:") {
		t.Errorf("no warning of a folder that is not there: %s", w)
	}
	specs, err := c.specs()
	if err != nil {
		t.Fatal(err)
	}
	nuget, corp, s3 := specs[2], specs[3], specs[4]
	if nuget.URL != "http://mirror.corp/nuget" || !nuget.Guard.RequiresChecksum || nuget.Layout != "ssqp" || nuget.Guard.NeverAsk[0] != "our*" {
		t.Errorf("%+v", nuget)
	}
	if corp.Guard.Executables || !corp.NoCompressed || corp.NoPointers || corp.Guard.MaxBytes != 3<<29 || corp.Credentials.Password != "pass" ||
		corp.Header.Get("X-Team") != "tools" || corp.Timeouts.Header != 20*time.Second || corp.Guard.Breaker.Failures != 7 || corp.TwoTier != "no" {
		t.Errorf("%+v", corp)
	}
	if b := s3.Bucket.(*bucket.S3Config); b.SecretKey != "other" || b.AccessKey != "AK" || b.Region != "eu-central-1" || b.Auth != "keys" {
		t.Errorf("%+v", b)
	}
	for _, asJSON := range []bool{false, true} {
		var out, warn bytes.Buffer
		if err := c.report(&out, &warn, asJSON); err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"geheim", "other", "pass\n", "tools", `"pass"`} {
			if strings.Contains(out.String()+warn.String(), secret) {
				t.Errorf("%q is shown: %s", secret, out.String())
			}
		}
		if !strings.Contains(out.String(), "X-Team") || !strings.Contains(out.String(), "1536MiB") {
			t.Errorf("%s", out.String())
		}
	}
}

func TestConfigFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"lisen: x", "symdepot.yaml:1: lisen: no such key; known are depot, listen"},
		{"listen: a\nlisten: b", "symdepot.yaml:2: listen: it stands there twice"},
		{"listen: [1]", "1: listen: text is expected, not a list"},
		{"listen: nonsense", "listen: an address and a port are expected"},
		{"public: maybe", `1: public: true or false is expected, not "maybe"`},
		{"hosts: a", "1: hosts: a list is expected"},
		{"log: {format: xml}", `1: log.format: one of auto, text, json is expected, not "xml"`},
		{"log: yes", "1: log: a map is expected, with keys such as format, requests"},
		{"\n\nfetch:\n  stall: soon", `4: fetch.stall: a time is expected, such as 300ms, 10s, 5m, 24h or 7d, not "soon"`},
		{"fetch: {stall: -1s}", "a time is expected"},
		{"cache: {max_bytes: lots}", `1: cache.max_bytes: a size is expected`},
		{"cache: {max_bytes: -1}", `a size is expected`},
		{"cache: {per_source: {x: 1GB}}", `cache.per_source.x: no upstream is called so`},
		{"cache: {per_source: [x]}", `1: cache.per_source: a map is expected`},
		{"upstreams: microsoft", "1: upstreams: a list is expected, each behind a hyphen"},
		{"upstreams: [microsft]", `1: upstreams[0]: no preset "microsft"; known are microsoft, nuget`},
		{"upstreams:\n- preset: microsft", `2: upstreams[0].preset: no preset "microsft"; known are microsoft, nuget`},
		{"upstreams:\n- name: x", "2: upstreams[0]: one of preset, url and folder is expected"},
		{"upstreams:\n- {url: x}", "2: upstreams[0].url: neither a URL nor a folder"},
		{"upstreams:\n- {url: 'https://x', layout: heap}", `2: upstreams[0].layout: no layout "heap"; known are auto, symstore`},
		{"upstreams:\n- {url: 'https://x', rank: first}", `2: upstreams[0].rank: a whole number is expected, not "first"`},
		{"upstreams:\n- {url: 'https://x', kinds: [pbd]}", `2: upstreams[0].kinds: no kind "pbd"; there are pe, pdb`},
		{"upstreams:\n- {url: 'https://x', casing: camel}", `casing: one of default, uppercase, lowercase is expected`},
		{"upstreams:\n- {url: 'https://x', colour: red}", `2: upstreams[0].colour: no such key; known are name, preset`},
		{"upstreams:\n- {url: 'https://x', timeouts: {connect: 5}}", `2: upstreams[0].timeouts.connect: a time is expected`},
		{"upstreams:\n- {url: 'https://x', bucket: {region: a}}", `2: upstreams[0].bucket.region: it is for the addresses of buckets`},
		{"upstreams:\n- {url: 'gs://x', bucket: {region: a}}", `2: upstreams[0].bucket.region: it is not for such a bucket; there are auth, endpoint, credentials_file`},
		{"upstreams:\n- {url: 'https://x', token: a, token_file: /b}", `2: upstreams[0].token: it stands there twice`},
		{"upstreams:\n- {url: 'https://x', token: a, user: b}", `2: upstreams[0].token: it goes with neither user nor password`},
		{"upstreams:\n- {url: 'https://x', token_file: /none/such}", `2: upstreams[0].token_file: `},
		{"upstreams:\n- {folder: /x, url: 'https://x'}", `2: upstreams[0].folder: it goes with neither`},
		{"upstreams: [microsoft, 'microsoft,rank=2']", `upstreams[1].name: two upstreams are called microsoft`},
		{"upstreams:\n- {preset: microsoft, url: 's3://x'}", `2: upstreams[0].url: with a preset`},
		{"upstreams:\n- {url: 'https://x', headers: {'a b': c}}", `2: upstreams[0].headers: "a b" is no name of a header`},
		{"upstreams:\n- {url: 'https://x', password: [geheim]}", `2: upstreams[0].password: text is expected, not a list`},
		{"stores: [{layout: gdb}]", "stores[0].dir: a folder is expected"},
		{"stores: [{dir: x, layout: heap}]", `stores[0].layout: no layout "heap"`},
		{"stores: ['x,layout=heap']", `1: stores[0]: no layout "heap"`},
		{"allow_networks: [here]", "allow_networks[0]: a network is expected"},
		{"allow_hosts: [a.example, \"http://b.example\"]", "allow_hosts[1]: a host is expected"},
		{"a: &x {}\nlog: *x", "2: log: aliases are not taken"},
		{"a: [", "YAML is expected"},
		{"listen: 127.0.0.1:1\n---\nlisten: 127.0.0.1:2", "one document is expected"},
		{"- a", "1: a map is expected, with keys such as depot, listen"},
		{"just text", "1: a map is expected"},
		{"\x00", "YAML is expected"},
	} {
		_, err := conf(t, c.text, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%q:\n%v\nwanted %s", c.text, err, c.want)
			continue
		}
		if fault := (*configError)(nil); !errors.As(err, &fault) {
			t.Errorf("%q: %T", c.text, err)
		}
	}
	// All at once.
	_, err := conf(t, "lisen: x\npublic: maybe\nupstreams: [microsft]", nil)
	if err == nil || strings.Count(err.Error(), "symdepot.yaml:") != 3 {
		t.Errorf("%v", err)
	}
}

func TestConfigEnvironment(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("from file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := conf(t, "listen: 127.0.0.1:1\nlog: {format: text}\nupstreams:\n- {name: my corp, url: 'https://x', token: a}\n- {name: other, url: 'https://y', token_file: /none}", map[string]string{
		"SYMDEPOT_LISTEN": "127.0.0.1:2", "SYMDEPOT_LOG_FORMAT": "json", "SYMDEPOT_HOSTS": "a, b", "SYMDEPOT_CACHE_MAX_BYTES": "1GiB",
		"SYMDEPOT_MISSES_ABSENT": "2d", "SYMDEPOT_UPSTREAMS": "microsoft https://z,rank=3", "SYMDEPOT_UPSTREAM_MY_CORP_TOKEN_FILE": filepath.Join(dir, "token"),
		"SYMDEPOT_UPSTREAM_OTHER_TOKEN": "b", "SYMDEPOT_FROM_ENV": "1", "DEBUGINFOD_URLS": "https://d.example http://a:2 https://msdl.microsoft.com/download/symbols",
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:2" || c.Log.Format != "json" || !slices.Equal(c.Hosts, []string{"a", "b"}) || c.Cache.MaxBytes != 1<<30 || c.Misses.Absent != span(48*time.Hour) {
		t.Errorf("%+v", c)
	}
	specs, err := c.specs()
	if err != nil || len(specs) != 5 {
		t.Fatalf("%d sources, %v", len(specs), err)
	}
	if specs[0].Credentials.Token != "from file" || specs[1].Credentials.Token != "b" || specs[3].Guard.Rank != 3 || specs[4].Name != "d.example" {
		t.Errorf("%+v", specs)
	}
	for _, env := range []map[string]string{{"SYMDEPOT_PUBLIC": "maybe"}, {"SYMDEPOT_UPSTREAMS": "microsft"}, {"SYMDEPOT_LOG_FORMAT": "xml"}, {"SYMDEPOT_FETCH_AT_ONCE": "x"}} {
		_, err := conf(t, "", env)
		name := ""
		for name = range env {
		}
		if err == nil || !strings.Contains(err.Error(), "environment: "+name+": ") {
			t.Errorf("%v: %v", env, err)
		}
	}
}

// The tags are the manual: all are there and right, and the documentation is
// made of them.
func TestConfigTags(t *testing.T) {
	for _, k := range allKeys(reflect.TypeFor[Config](), "") {
		f := k.field
		if f.Tag.Get("help") == "" || k.hasValue() && f.Tag.Get("example") == "" && f.Type.Kind() != reflect.Slice {
			t.Errorf("%s: no help or no example", k.path)
		}
		if !regexp.MustCompile(`^[a-z][a-z0-9_]*$`).MatchString(yamlName(f)) {
			t.Errorf("%s: odd name", k.path)
		}
		v := reflect.New(f.Type).Elem()
		if v.Kind() == reflect.Pointer {
			v = reflect.New(f.Type.Elem()).Elem()
		}
		_, isText := v.Addr().Interface().(encoding.TextUnmarshaler)
		for _, tag := range []string{"default", "example"} {
			if text := f.Tag.Get(tag); text != "" && (isText || isScalar(v.Type()) && v.Kind() != reflect.Slice) {
				if err := setScalar(v, text, f); err != nil {
					t.Errorf("%s: %s %q: %v", k.path, tag, text, err)
				}
			}
		}
	}
	for k, f := range map[string]string{"layout": "auto", "casing": string(layout.CasingDefault), "two_tier": upstream.TwoTierAuto} {
		if got := orDefault("", "", k); got != f {
			t.Errorf("%s: %s", k, got)
		}
	}
}

func TestConfigPrinted(t *testing.T) {
	text := documentedConfig()
	if err := decodeConfig("printed", strings.NewReader(text), &Config{}); err != nil {
		t.Fatal(err)
	}
	// With every # taken away it is valid, and every key is there.
	keyLine := regexp.MustCompile(`^#(?:  )*(?:- )?[a-z][a-z0-9_]*:`)
	var bare strings.Builder
	for line := range strings.Lines(text) {
		if keyLine.MatchString(line) {
			bare.WriteString(line[1:])
		}
	}
	c := defaultConfig()
	if err := decodeConfig("bare", strings.NewReader(bare.String()), c); err != nil {
		t.Fatalf("%v\n%s", err, bare.String())
	}
	for _, k := range allKeys(reflect.TypeFor[Config](), "") {
		if name := yamlName(k.field); !strings.Contains(bare.String(), name+":") {
			t.Errorf("%s is not there", k.path)
		}
	}
	if len(c.Upstreams) != 1 || c.Upstreams[0].Breaker.Failures != 5 || c.Upstreams[0].Bucket.ClientID == "" || len(c.Stores) != 1 {
		t.Errorf("%+v", c.Upstreams)
	}
	d := defaultConfig()
	eachScalar(reflect.ValueOf(c).Elem(), "", func(path string, v reflect.Value, f reflect.StructField) {
		if f.Tag.Get("default") == "" {
			return
		}
		eachScalar(reflect.ValueOf(d).Elem(), "", func(p string, w reflect.Value, _ reflect.StructField) {
			if p == path && !reflect.DeepEqual(v.Interface(), w.Interface()) {
				t.Errorf("%s: %v is printed, %v is the default", path, v, w)
			}
		})
	})
}

func TestConfigDocs(t *testing.T) {
	const begin, end = "<!-- keys: made of the program by go test ./cmd/symdepot -run ConfigDocs -update-docs -->\n", "<!-- end of keys -->"
	path := filepath.Join("..", "..", "docs", "config.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.ReplaceAll(string(text), "\r\n", "\n")
	before, rest, ok := strings.Cut(doc, begin)
	have, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("docs/config.md has no marks around its tables")
	}
	want := "\n" + documentedTables() + "\n"
	if *updateDocs {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if have != want {
		t.Error("docs/config.md does not say what the program does; run: go test ./cmd/symdepot -run ConfigDocs -update-docs")
	}
	// Its examples are valid.
	examples := 0
	for _, part := range strings.Split(before+after, "```yaml\n")[1:] {
		example, _, _ := strings.Cut(part, "```")
		secret := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := conf(t, strings.ReplaceAll(example, "/run/secrets/builds-token", secret), nil); err != nil {
			t.Errorf("%v\n%s", err, example)
		}
		examples++
	}
	if examples == 0 {
		t.Error("no examples")
	}
}

func TestSizesAndSpans(t *testing.T) {
	for text, want := range map[string]size{"0": 0, "17": 17, "1k": 1024, "1KB": 1000, "1.5 GiB": 3 << 29, "2tb": 2e12, "10B": 10} {
		var s, back size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%s: %d, %v", text, s, err)
		}
		if err := back.UnmarshalText([]byte(s.String())); err != nil || back != s {
			t.Errorf("%s: %s", text, s)
		}
	}
	for text, want := range map[string]time.Duration{"0s": 0, "300ms": 300 * time.Millisecond, "90m": 90 * time.Minute, "7d": 168 * time.Hour, "1.5d": 36 * time.Hour, "24h": 24 * time.Hour} {
		var s, back span
		if err := s.UnmarshalText([]byte(text)); err != nil || time.Duration(s) != want {
			t.Errorf("%s: %s, %v", text, s, err)
		}
		if err := back.UnmarshalText([]byte(s.String())); err != nil || back != s {
			t.Errorf("%s: %s", text, s)
		}
	}
	for _, text := range []string{"", "x", "-1", "NaN", "1e30", "inf", "GiB", "1XB"} {
		if err := new(size).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is a size", text)
		}
	}
	for _, text := range []string{"", "x", "-1s", "NaNd", "1e30d", "d", "5"} {
		if err := new(span).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is a time", text)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add(fullConfig)
	f.Add("upstreams: [{url: 'https://x', headers: {a: b}}]")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "_file") {
			return // nothing of this machine is read
		}
		c := defaultConfig()
		c.getenv = noEnv
		if decodeConfig("fuzz", strings.NewReader(text), c) == nil && c.check() == nil {
			if err := c.report(io.Discard, io.Discard, true); err != nil {
				t.Error(err)
			}
		}
	})
}
