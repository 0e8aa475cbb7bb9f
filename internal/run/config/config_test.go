package config

import (
	"bytes"
	"encoding"
	"errors"
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

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

func noEnv(string) string { return "" }

// conf loads a configuration from text.
func conf(t *testing.T, text string, env map[string]string) (*Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "symdepot.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path, func(k string) string { return env[k] })
}

func TestConfigDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "{}", "---\n", "listen:\nupstreams:\n"} {
		c, err := conf(t, text, nil)
		if err != nil {
			t.Fatalf("%q: conf: error %v, want no error", text, err)
		}
		if c.Listen != "127.0.0.1:8080" || !c.Log.Requests || c.Log.Format != "auto" || c.FilePath != "name" || c.Public || len(c.Upstreams) != 0 {
			t.Errorf(`%q: got %+v, want Listen "127.0.0.1:8080", Log.Requests true, Log.Format "auto", FilePath "name", Public false, Upstreams of length 0`, text, c)
		}
	}
	c, err := Load("", noEnv)
	if err != nil || c.Listen != "127.0.0.1:8080" {
		t.Error(err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml"), noEnv); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

const fullConfig = `
depot: /var/lib/symdepot
listen: 0.0.0.0:80
public: yes
hosts: [sym.example]
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
    product: windows
    kinds: [pdb, pe]
    executables: false
    headers: {X-Team: tools}
    user: reader
    password_file: FILE
    timeout: 20s
  - name: s3
    url: s3://bucket/prefix?region=eu-central-1&auth=keys
    layout: unified
    user: AK
  - name: disk
    folder: /mnt/archive
misses: {absent: 0s, forbidden: 2d}
cache:
  max_bytes: 100GB
  max_unused: 90d
  per_upstream: {microsoft: 50GiB}
`

func TestConfigFull(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("pass\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := conf(t, strings.ReplaceAll(fullConfig, "FILE", password), map[string]string{"SYMDEPOT_UPSTREAM_S3_PASSWORD": "other"})
	if err != nil {
		t.Fatal(err)
	}
	if !c.Public || c.Stores[0].Layout != "unified" || c.Stores[1].Dir != "/srv/b" || c.PointerRoots[0] != `\\server\share=/mnt/share` {
		t.Errorf(`got %+v, want Public true, Stores[0].Layout "unified", Stores[1].Dir "/srv/b", PointerRoots[0] %q`, c, `\\server\share=/mnt/share`)
	}
	all, err := c.Specs()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, u := range all {
		names = append(names, fmt.Sprintf("%s %d %s", u.Name, u.Guard.Rank, c.Products()[u.Name]))
	}
	if want := []string{"microsoft 0 ", "x 2 ", "nuget 1 ", "corp 0 windows", "s3 0 ", "disk 0 "}; !slices.Equal(names, want) {
		t.Errorf("upstreams %q, want %q", names, want)
	}
	if w := strings.Join(c.Warnings(all), "\n"); !strings.Contains(w, "disk:") {
		t.Errorf("no warning of a folder that is not there: %s, want %q in it", w, "disk:")
	}
	specs, err := c.Specs()
	if err != nil {
		t.Fatal(err)
	}
	nuget, corp, s3 := specs[2], specs[3], specs[4]
	if nuget.URL != "http://mirror.corp/nuget" || !nuget.Guard.RequiresChecksum || nuget.Layout != "ssqp" || nuget.Guard.NeverAsk[0] != "our*" {
		t.Errorf(`got %+v, want URL "http://mirror.corp/nuget", Guard.RequiresChecksum true, Layout "ssqp", Guard.NeverAsk[0] "our*"`, nuget)
	}
	if corp.Guard.Executables || corp.Credentials.Password != "pass" ||
		corp.Header.Get("X-Team") != "tools" || corp.Timeouts.Header != 20*time.Second {
		t.Errorf(`got %+v, want Guard.Executables false, Credentials.Password "pass", Header.Get("X-Team") "tools", Timeouts.Header %v`, corp, 20*time.Second)
	}
	if b := s3.Bucket.(*bucket.S3Config); b.SecretKey != "other" || b.AccessKey != "AK" || b.Region != "eu-central-1" || b.Auth != "keys" {
		t.Errorf(`got %+v, want SecretKey "other", AccessKey "AK", Region "eu-central-1", Auth "keys"`, b)
	}
	for _, asJSON := range []bool{false, true} {
		var out, warn bytes.Buffer
		if err := c.Report(&out, &warn, asJSON, "DEPOT"); err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"geheim", "other", "pass\n", "tools", `"pass"`} {
			if strings.Contains(out.String()+warn.String(), secret) {
				t.Errorf("%q is shown: %s, want it hidden", secret, out.String())
			}
		}
		if !strings.Contains(out.String(), "X-Team") {
			t.Errorf(`got %s, want one with "X-Team"`, out.String())
		}
	}
}

func TestConfigFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"lisen: x", "symdepot.yaml:1: lisen: no such key; the nearest is listen"},
		{"zzzzzzzzz: x", "symdepot.yaml:1: zzzzzzzzz: no such key; known are depot, listen"},
		{"retention: {}", "symdepot.yaml:1: retention: no such key: the retention policy is a file of its own, which symdepot policy set FILE sets"},
		{"listen: a\nlisten: b", "symdepot.yaml:2: listen: the key is set twice"},
		{"listen: [1]", "1: listen: text is expected, not a list"},
		{"listen: nonsense", "listen: an address and a port are expected"},
		{"public: maybe", `1: public: true or false is expected, not "maybe"`},
		{"tls: {cert: a}", "tls: cert and key must both be set"},
		{"auth: {certificates: [{match: build}]}", "auth.certificates[0].match: sha256:, cn:"},
		{"transcoding: {programs: [x]}", "transcoding.programs[0]: x: the name or the command is missing"},
		{"pointer_roots: ['a=']", "pointer_roots[0]: a folder is expected"},
		{"hosts: a", "1: hosts: a list is expected"},
		{"log: {format: xml}", `1: log.format: one of auto, text, json is expected, not "xml"`},
		{"log: yes", "1: log: a map is expected, with keys such as format, requests"},
		{"\n\ncold:\n  after: soon", `4: cold.after: a duration is expected, such as 300ms, 10s, 5m, 24h or 7d, not "soon"`},
		{"watch: ['builds=/1.0']", "1: watch[0]: a folder is expected: DIR[=PRODUCT[/VERSION]]"},
		{"cold: {after: -1s}", "a duration is expected"},
		{"cache: {max_bytes: lots}", `1: cache.max_bytes: a size is expected`},
		{"cache: {max_bytes: -1}", `a size is expected`},
		{"cache: {per_upstream: {x: 1GB}}", `cache.per_upstream.x: no upstream has this name`},
		{"depot: {replicas: ['postgres://x@y/z']}", `depot.replicas[0]: only a depot in PostgreSQL has replicas`},
		{"depot: {dir: 'postgres://x@y/z', replicas: [/srv/x]}", `depot.replicas[0]: the address of a standby is expected`},
		{"depot: {dir: 'postgres://x@y/z', replicas: ['postgres://x:geheim@y/z']}", `depot.replicas[0]: the address of a depot must not have a password`},
		{"cache: {per_upstream: [x]}", `1: cache.per_upstream: a map is expected`},
		{"upstreams: microsoft", "1: upstreams: a list is expected, with a hyphen before each item"},
		{"upstreams: [microsft]", `1: upstreams[0]: unknown preset "microsft"; known are microsoft, nuget`},
		{"upstreams:\n- preset: microsft", `2: upstreams[0].preset: unknown preset "microsft"; known are microsoft, nuget`},
		{"upstreams:\n- name: x", "2: upstreams[0]: one of preset, url and folder is expected"},
		{"upstreams:\n- {url: x}", "2: upstreams[0].url: neither a URL nor a folder"},
		{"upstreams:\n- {folder: /x, layout: heap}", `2: upstreams[0].layout: folder /x: unknown layout "heap"; known are auto, `},
		{"upstreams:\n- {url: 'https://x', layout: heap}", `2: upstreams[0].layout: unknown layout "heap"; known are auto, symstore`},
		{"upstreams:\n- {url: 'https://x', rank: first}", `2: upstreams[0].rank: a whole number is expected, not "first"`},
		{"upstreams:\n- {url: 'https://x', kinds: [pbd]}", `2: upstreams[0].kinds: unknown kind "pbd"; known are pe, pdb`},
		{"upstreams:\n- {url: 'https://x', colour: red}", `2: upstreams[0].colour: no such key; known are name, preset`},
		{"upstreams:\n- {url: 'https://x', timeout: 5}", `2: upstreams[0].timeout: a duration is expected`},
		{"upstreams:\n- {url: 'gs://x?region=a'}", `2: upstreams[0].url: bucket: the query of a gs:// URL may only have endpoint, auth, anonymous`},
		{"upstreams:\n- {url: 'https://x', token: geheim}", `2: upstreams[0].token: no such key; known are name, preset`},
		{"upstreams:\n- {url: 'https://x', token_file: /none/such}", `2: upstreams[0].token_file: `},
		{"upstreams:\n- {folder: /x, url: 'https://x'}", `2: upstreams[0].folder: folder excludes url and preset`},
		{"upstreams: [microsoft, 'microsoft,rank=2']", `upstreams[1].name: two upstreams have the name microsoft`},
		{"upstreams:\n- {preset: microsoft, url: 's3://x'}", `2: upstreams[0].url: with a preset`},
		{"upstreams:\n- {url: 'https://x', headers: {'a b': c}}", `2: upstreams[0].headers: "a b" is not the name of a header field`},
		{"upstreams:\n- {url: 'https://x', password_file: [geheim]}", `2: upstreams[0].password_file: text is expected, not a list`},
		{"stores: [{layout: gdb}]", "stores[0].dir: a folder is expected"},
		{"stores: [{dir: x, layout: heap}]", `stores[0].layout: unknown layout "heap"`},
		{"stores: [{dir: x, forms: private}]", "stores[0].forms: public is expected"},
		{"upstreams: [{url: 'https://a.example.com', forms: private}]", "upstreams[0].forms: public is expected"},
		{"upstreams: ['https://a.example.com,forms=private']", "forms=private: public is expected"},
		{"stores: ['x,layout=heap']", `1: stores[0]: unknown layout "heap"`},
		{"allow_networks: [here]", "allow_networks[0]: a network is expected"},
		{"proxies: [here]", "proxies: "},
		{"allow_hosts: [a.example, \"http://b.example\"]", "allow_hosts[1]: a host is expected"},
		{"a: &x {}\nlog: *x", "2: log: aliases are not supported"},
		{"a: [", "YAML is expected"},
		{"listen: 127.0.0.1:1\n---\nlisten: 127.0.0.1:2", "one document is expected"},
		{"- a", "1: a map is expected, with keys such as depot, listen"},
		{"just text", "1: a map is expected"},
		{"\x00", "YAML is expected"},
	} {
		_, err := conf(t, c.text, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "geheim") || strings.Contains(err.Error(), `", not "`) {
			t.Errorf("%q:\n%v\nwanted %s", c.text, err, c.want)
			continue
		}
		if fault := (*Error)(nil); !errors.As(err, &fault) {
			t.Errorf("%q: got error %T, want errors.As(err, &fault)", c.text, err)
		}
	}
	// A misspelled key has the nearest one, and no list of all keys.
	_, err := conf(t, "lisen: x", nil)
	if err == nil || !strings.HasSuffix(err.Error(), "lisen: no such key; the nearest is listen") {
		t.Errorf("conf(lisen: x): error %v, want one that ends with the nearest key", err)
	}
	// All at once.
	_, err = conf(t, "lisen: x\npublic: maybe\nupstreams: [microsft]", nil)
	if err == nil || strings.Count(err.Error(), "symdepot.yaml:") != 3 {
		t.Errorf(`conf("lisen: x\npublic: maybe\nupstreams: [microsft]"): error %v, want an error, strings.Count(err.Error(), "symdepot.yaml:") 3`, err)
	}
}

// The budget of keys: each has a user and an example. A new one has a page of docs that
// advises when to change it; what nobody tunes is a constant.
func TestNumberOfKeys(t *testing.T) {
	const most = 160 // 158, crashes.keep and its section: whether dumps are kept, which have personal data, only their owner can say
	if n := len(allKeys(reflect.TypeFor[Config](), "")); n > most {
		t.Errorf("%d keys, want %d at most: remove one that nobody needs", n, most)
	} else {
		t.Logf("%d keys", n)
	}
}

// The OpenID provider at which people sign in is checked, and its secret comes from a
// file or the environment.
func TestSignIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("geheim\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const provider = "base_url: https://symbols.example.com\nauth: {sign_in: {issuer: 'https://login.example.com', client_id: depot, groups_claim: groups, client_secret_file: '%s'}}"
	for what, env := range map[string]map[string]string{
		"geheim": nil, "variable": {"SYMDEPOT_AUTH_SIGN_IN_CLIENT_SECRET": "variable"},
	} {
		c, err := conf(t, fmt.Sprintf(provider, file), env)
		if err != nil {
			t.Fatal(err)
		}
		l := c.Access().SignIn
		if l == nil || l.Issuer != "https://login.example.com" || l.ClientID != "depot" || l.ClientSecret != what || l.Name != "email" || l.Groups != "groups" || c.BaseURL != "https://symbols.example.com" {
			t.Errorf("with %v: %+v, want the provider with the secret %q", env, l, what)
		}
		gate := c.Access()
		if rights, err := gate.Anonymous(); err != nil || rights.Admitted {
			t.Errorf("anonymous rights: %+v, %v; want none, because people sign in", rights, err)
		}
	}
	for text, want := range map[string]string{
		fmt.Sprintf(provider, file+"x"):                       "auth.sign_in.client_secret_file: ",
		"auth: {sign_in: {client_id: a}}":                     "auth.sign_in.issuer: the URL of the provider is expected",
		"auth: {sign_in: {issuer: 'https://a'}}":              "auth.sign_in: client_id:",
		"auth: {sign_in: {issuer: 'http://a', client_id: b}}": "auth.sign_in: issuer: keys that come over plain HTTP",
		"base_url: symbols.example.com":                       "base_url: a URL without a final slash",
		"base_url: https://symbols.example.com/":              "base_url: a URL without a final slash",
	} {
		if _, err := conf(t, text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Limits of pushes and rules for CI jobs are checked, and reach the packages that
// apply them.
func TestPushAndOIDC(t *testing.T) {
	dir := t.TempDir()
	load := func(text string) (*Config, error) {
		file := filepath.Join(dir, "symdepot.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(file, func(string) string { return "" })
	}
	c, err := load(`
push:
  max_file: 1GiB
  max_open: 100
  max_staged: 200GiB
  min_free: 50GiB
  collect: 15m
  quotas: {Game: 500GiB}
  deny_other: true
sources:
  srcsrv: {Game: refuse-commands, "*": flag}
  link_hosts: [github.com]
auth:
  oidc:
    - issuer: https://gitlab.example.com
      audience: https://symbols.example.com
      match: {project_id: 20, ref_protected: true}
      write: [tool]
      read: true
      class: nightly
`)
	if err != nil {
		t.Fatal(err)
	}
	rules := c.Access().OIDC
	if len(rules) != 1 || rules[0].Match["project_id"] != "20" || rules[0].Match["ref_protected"] != "true" || !rules[0].Read || rules[0].Class != "nightly" || rules[0].Write[0] != "tool" {
		t.Errorf("the rules are %+v; want one with two matches, read, class nightly and write tool", rules)
	}
	for text, want := range map[string]string{
		"push: {max_file: 0}":              "push.max_file: at least 1 is expected",
		"push: {max_open: 0}":              "push.max_open: at least 1 is expected",
		"push: {collect: 0s}":              "push.collect: at least a second",
		"push: {min_free: -1}":             "push.min_free",
		"push: {quotas: [1]}":              "push.quotas",
		"push: {max_fils: 1}":              "push.max_fils: no such key",
		"sources: {srcsrv: {Game: deny}}":  "sources.srcsrv.Game: keep, flag or refuse-commands is expected",
		"sources: {link_hosts: ['a/b']}":   "sources.link_hosts[0]: a host is expected",
		"auth: {oidc: [{issuer: gitlab}]}": "auth.oidc[0]: issuer:",
		"auth: {oidc: [{issuer: 'https://a', audience: b, write: [c], public: [d], match: {sub: a}}]}": "auth.oidc[0]: public: a rule has either",
		"auth: {oidc: [{issuer: 'https://a', audience: b, write: [c], match: {repository: a/b}}]}":     "auth.oidc[0]: match: one of the claims",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
}

// A configuration can be examined before its secrets are in place.
func TestMissingSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "symdepot.yaml")
	if err := os.WriteFile(path, []byte("upstreams: [{name: corp, url: 'https://x', token_file: /none/such}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := LoadForCheck(path, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	var out, warn strings.Builder
	if err := c.Report(&out, &warn, false, ""); err != nil {
		t.Fatal(err)
	}
	if strings.Count(warn.String(), "corp: token_file: ") != 1 || !strings.Contains(out.String(), "credentials: bearer token") {
		t.Errorf("warnings %q, report %s; want one warning and a bearer token", warn.String(), out.String())
	}
	if _, err := Load(path, noEnv); err == nil {
		t.Error("a server starts without its secret")
	}
}

// The current folder never supplies the configuration.
func TestFind(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("AppData", home)
	t.Chdir(t.TempDir())
	if err := os.WriteFile("symdepot.yaml", []byte("listen: 127.0.0.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := Find("", noEnv); got != "" && got != systemFile {
		t.Errorf("found %s, want none", got)
	}
	if w := IgnoredHere(""); !strings.Contains(w, "--config symdepot.yaml") {
		t.Errorf("warning %q, want %q in it", w, "--config symdepot.yaml")
	}
	if w := IgnoredHere("symdepot.yaml"); w != "" {
		t.Errorf(`the named file is called ignored: %s, want ""`, w)
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "symdepot", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ named, env, want string }{{"", "", own}, {"", "b", "b"}, {"a", "b", "a"}} {
		if got := Find(c.named, func(string) string { return c.env }); got != c.want {
			t.Errorf("Find(%q) with SYMDEPOT_CONFIG=%q: %s, want %s", c.named, c.env, got, c.want)
		}
	}
}

func TestConfigEnvironment(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("from file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := conf(t, "listen: 127.0.0.1:1\nlog: {format: text}\nupstreams:\n- {name: my corp, url: 'https://x'}\n- {name: other, url: 'https://y', token_file: /none}", map[string]string{
		"SYMDEPOT_LISTEN": "127.0.0.1:2", "SYMDEPOT_LOG_FORMAT": "json", "SYMDEPOT_HOSTS": "a, b", "SYMDEPOT_CACHE_MAX_BYTES": "1GiB",
		"SYMDEPOT_MISSES_ABSENT": "2d", "SYMDEPOT_UPSTREAMS": "microsoft https://z,rank=3", "SYMDEPOT_UPSTREAM_MY_CORP_TOKEN_FILE": filepath.Join(dir, "token"),
		"SYMDEPOT_UPSTREAM_OTHER_TOKEN": "b", "DEBUGINFOD_URLS": "https://d.example http://a:2 https://msdl.microsoft.com/download/symbols",
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:2" || c.Log.Format != "json" || !slices.Equal(c.Hosts, []string{"a", "b"}) || c.Cache.MaxBytes != 1<<30 || c.Misses.Absent != term.Duration(48*time.Hour) {
		t.Errorf(`got %+v, want Listen "127.0.0.1:2", Log.Format "json", Hosts []string{"a", "b"}, Cache.MaxBytes 1 << 30, Misses.Absent term.Duration(48 * time.Hour)`, c)
	}
	c.FromEnv = true // as --from-env
	specs, err := c.Specs()
	if err != nil || len(specs) != 5 {
		t.Fatalf("%d sources, %v; want 5", len(specs), err)
	}
	if specs[0].Credentials.Token != "from file" || specs[1].Credentials.Token != "b" || specs[3].Guard.Rank != 3 || specs[4].Name != "d.example" {
		t.Errorf(`got %+v, want specs[0].Credentials.Token "from file", specs[1].Credentials.Token "b", specs[3].Guard.Rank 3, specs[4].Name "d.example"`, specs)
	}
	for _, env := range []map[string]string{{"SYMDEPOT_PUBLIC": "maybe"}, {"SYMDEPOT_UPSTREAMS": "microsft"}, {"SYMDEPOT_LOG_FORMAT": "xml"}, {"SYMDEPOT_PUSH_MAX_OPEN": "x"}} {
		_, err := conf(t, "", env)
		name := ""
		for name = range env {
		}
		if err == nil || !strings.Contains(err.Error(), "environment: "+name+": ") {
			t.Errorf("%v: got error %v, want an error, one with %q", env, err, "environment: "+name+": ")
		}
	}
}

// The tags are the manual: all are there and right, and the documentation is
// made of them.
func TestConfigTags(t *testing.T) {
	for _, k := range allKeys(reflect.TypeFor[Config](), "") {
		f := k.field
		if help()[k.path] == "" || k.hasValue() && f.Tag.Get("example") == "" && f.Type.Kind() != reflect.Slice {
			t.Errorf("%s: no help or no example", k.path)
		}
		if !regexp.MustCompile(`^[a-z][a-z0-9_]*$`).MatchString(yamlName(f)) {
			t.Errorf("%s: want lower case letters, digits and underscores", k.path)
		}
		v := reflect.New(f.Type).Elem()
		if v.Kind() == reflect.Pointer {
			v = reflect.New(f.Type.Elem()).Elem()
		}
		_, isText := v.Addr().Interface().(encoding.TextUnmarshaler)
		for _, tag := range []string{"default", "example"} {
			if text := f.Tag.Get(tag); text != "" && (isText || isScalar(v.Type()) && v.Kind() != reflect.Slice) {
				if err := setScalar(v, text, f); err != nil {
					t.Errorf("%s, %s: setScalar: %q, error %v; want no error", k.path, tag, text, err)
				}
			}
		}
	}
	for path := range help() {
		if !slices.ContainsFunc(allKeys(reflect.TypeFor[Config](), ""), func(k key) bool { return k.path == path }) {
			t.Errorf("help.txt explains %s, which is no key", path)
		}
	}
	if f, ok := fieldNamed(reflect.TypeFor[Upstream](), "timeout"); !ok || f.Tag.Get("default") != defaultTimeout.String() {
		t.Errorf("the default of upstreams[].timeout is not %v", defaultTimeout)
	}
}

func TestConfigPrinted(t *testing.T) {
	text := Manual()
	if err := new(Config).decode("printed", []byte(text)); err != nil {
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
	c := Default()
	if err := c.decode("bare", []byte(bare.String())); err != nil {
		t.Fatalf(`decode("bare"): error %v, %s; want no error`, err, bare.String())
	}
	for _, k := range allKeys(reflect.TypeFor[Config](), "") {
		if name := yamlName(k.field); !strings.Contains(bare.String(), name+":") {
			t.Errorf("%s is not there", k.path)
		}
	}
	if len(c.Upstreams) != 1 || c.Upstreams[0].Timeout != term.Duration(10*time.Second) || c.Upstreams[0].TokenFile == "" || len(c.Stores) != 1 {
		t.Errorf(`got %+v, length %v; want length 1, c.Upstreams[0].Timeout term.Duration(10 * time.Second), c.Upstreams[0].TokenFile not "", 1`, c.Upstreams, len(c.Stores))
	}
	d := Default()
	eachScalar(reflect.ValueOf(c).Elem(), "", func(path string, v reflect.Value, f reflect.StructField) {
		if f.Tag.Get("default") == "" {
			return
		}
		eachScalar(reflect.ValueOf(d).Elem(), "", func(p string, w reflect.Value, _ reflect.StructField) {
			if p == path && !reflect.DeepEqual(v.Interface(), w.Interface()) {
				t.Errorf("%s: %v is printed, want the default %v", path, v, w)
			}
		})
	})
}

func TestConfigDocs(t *testing.T) {
	written := symtest.Generated(t, "docs/config.md", "keys", manualTables())
	// Its examples are valid.
	examples := 0
	for _, part := range strings.Split(written, "```yaml\n")[1:] {
		example, _, _ := strings.Cut(part, "```")
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(example), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadForCheck(path, noEnv); err != nil {
			t.Errorf("LoadForCheck: error %v, %s; want no error", err, example)
		}
		examples++
	}
	if examples == 0 {
		t.Error("the documentation has no examples, want some")
	}
}

func FuzzConfig(f *testing.F) {
	f.Add(fullConfig)
	f.Add("upstreams: [{url: 'https://x', headers: {a: b}}]")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "_file") {
			return // nothing of this machine is read
		}
		c := Default()
		c.getenv = noEnv
		if c.decode("fuzz", []byte(text)) == nil && c.check() == nil {
			if err := c.Report(io.Discard, io.Discard, true, "DEPOT"); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestConfigReload: a running server takes the rights of a changed file, keeps what flags say, and
// hears which changes need a restart.
func TestConfigReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "symdepot.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("listen: 127.0.0.1:1\nauth: {grants: [{who: [a], read: [x]}]}\n")
	c, err := Load(file, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []bool{false, true} {
		c.Auth.Demand, c.Hosts = flag, []string{"from.a.flag"}
		for _, tt := range []struct {
			text    string
			restart bool
		}{
			{"listen: 127.0.0.1:1 # the same\nauth: {grants: [{who: [a], public: [x]}]}", false},
			{"listen: 127.0.0.1:2\nauth: {grants: [{who: [a], public: [x]}]}", true},
			{"listen: 127.0.0.1:1\nauth: {users_file: u, grants: [{who: [a], public: [x]}]}", true},
			{"listen: 127.0.0.1:1\nupstreams: [{name: corp, url: 'https://x', token_file: /none/such}]", true},
		} {
			write(tt.text)
			next, restart, err := c.Reload()
			if err != nil {
				if strings.Contains(tt.text, "/none/such") {
					continue
				}
				t.Fatal(err)
			}
			p := next.Access().Policy
			if restart != tt.restart || len(p.Grants) != 1 || len(p.Grants[0].Read) != 0 || !slices.Equal(p.Grants[0].Public, []string{"x"}) || p.Demand != flag {
				t.Errorf("%s, flag %v: restart %v and the policy %+v; want restart %v", tt.text, flag, restart, p, tt.restart)
			}
			if next.Listen != "127.0.0.1:1" || next.Auth.UsersFile != "" || len(next.Hosts) != 1 {
				t.Errorf("%s: listen %s, users %s, hosts %v; want those before", tt.text, next.Listen, next.Auth.UsersFile, next.Hosts)
			}
		}
	}
	write("auth: {grant: []}")
	if _, _, err := c.Reload(); err == nil || !strings.Contains(err.Error(), "no such key") {
		t.Errorf("a faulty file: %v, want an error", err)
	}
}
