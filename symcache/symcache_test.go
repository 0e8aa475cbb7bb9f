package symcache

import (
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
)

func ver(t testing.TB, s string) Version {
	t.Helper()
	v, err := ParseVersion(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func vers(t testing.TB, list string) []Version {
	t.Helper()
	var out []Version
	for _, s := range strings.Fields(list) {
		out = append(out, ver(t, s))
	}
	return out
}

func TestParseVersion(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"3.1.0", "3.1.0"}, {"v3.1.0", "3.1.0"}, {"V03.01.00", "3.1.0"}, {"65535.255.255", "65535.255.255"}, {"0.0.0", "0.0.0"},
		{"3.1.0-beta-1", "3.1.0-beta-1"}, {"v3.1.0-B", "3.1.0-B"}, {"00000000000000000000003.1.0", "3.1.0"},
		{"", ""}, {"v", ""}, {"vv3.1.0", ""}, {"vV3.1.0", ""}, {"3.1", ""}, {"3.1.0.0", ""}, {"3.1.", ""}, {"+3.1.0", ""}, {"-3.1.0", ""}, {"3.-1.0", ""},
		{"3.300.0", ""}, {"3.1.256", ""}, {"70000.0.0", ""}, {"3.1.0-", ""}, {"3.1.0-a.b", ""}, {"3.1.0-ä", ""}, {" 3.1.0", ""}, {"3.1.0 ", ""}, {"3_0.1.0", ""}, {"0x3.1.0", ""},
	} {
		v, err := ParseVersion(tt.in)
		if tt.want == "" {
			if !errors.Is(err, ErrVersion) || !v.IsZero() {
				t.Errorf("%q: got %v, error %v; want ErrVersion, v.IsZero()", tt.in, v, err)
			}
			continue
		}
		if err != nil || v.String() != tt.want || v.Segment() != "v"+tt.want {
			t.Errorf("%q: %v, %v; want %s", tt.in, v, err, tt.want)
		}
	}
}

func TestCompare(t *testing.T) {
	order := vers(t, "0.0.0 2.255.255 3.0.0-A 3.0.0-a 3.0.0-a-b 3.0.0 3.0.1 3.0.10 3.1.0 3.10.0 4.0.0 10.0.0")
	for i, v := range order {
		for j, w := range order {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := v.Compare(w); got != want {
				t.Errorf("%s to %s: %d, want %d", v, w, got, want)
			}
		}
	}
}

func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		request, held string
		want          bool
	}{
		{"4.1.0", "3.2.0", true}, {"4.1.0", "4.5.0", true}, {"4.1.0", "4.0.0", true}, {"4.1.0", "5.0.0", false},
		{"3.0.0", "3.255.0", true}, {"3.9.9", "4.0.0", false}, {"3.1.0", "2.9.9", false}, {"2.9.9", "2.9.9", false},
		{"3.1.0", "3.1.0-beta", false}, {"3.1.0-beta", "3.1.0-beta", true}, {"3.1.0-beta", "3.1.0", true}, {"4.0.0", "3.0.0-beta", false},
	} {
		if got := CanRead(ver(t, tt.request), ver(t, tt.held)); got != tt.want {
			t.Errorf("%s for %s: %v, want %v", tt.held, tt.request, got, tt.want)
		}
	}
	if CanRead(ver(t, "3.1.0"), Version{}) {
		t.Error("no version answers")
	}
}

// TestBest has the rows of the protocol's version choice.
func TestBest(t *testing.T) {
	const multi = "3.0.2 3.1.0 3.2.0 4.0.0"
	for _, tt := range []struct{ row, held, request, exceeds, want string }{
		{"C01", "3.1.0", "3.2.0", "", "3.1.0"}, {"C02", "3.1.0", "3.0.5", "", "3.1.0"}, {"C03", "3.1.0", "3.0.0", "", "3.1.0"}, {"C04", "3.1.0", "4.1.0", "", "3.1.0"},
		{"C06", multi, "3.1.0", "", "3.1.0"}, {"C07", multi, "3.0.0", "", "3.2.0"}, {"C08", multi, "3.5.0", "", "3.2.0"}, {"C09", multi, "4.0.0", "", "4.0.0"},
		{"C10", multi, "4.9.0", "", "4.0.0"}, {"C10", multi, "5.0.0", "", "4.0.0"}, {"C11", "4.0.0", "3.9.9", "", ""},
		{"I01", "3.1.0", "3.2.0", "3.1.0", ""}, {"I02", "3.1.0", "3.2.0", "3.0.9", "3.1.0"}, {"I06", multi, "3.5.0", "3.2.0", ""}, {"I07", multi, "4.9.0", "3.2.0", "4.0.0"},
		{"exact beats newer", multi, "3.1.0", "3.0.2", "3.1.0"}, {"nothing", "", "3.1.0", "", ""}, {"pre-release", "3.1.0-beta", "3.1.0", "", ""},
	} {
		held := vers(t, tt.held)
		for range 2 { // in whatever order they are held
			var exceeds Version
			if tt.exceeds != "" {
				exceeds = ver(t, tt.exceeds)
			}
			got, ok := Best(held, ver(t, tt.request), exceeds)
			if ok != (tt.want != "") || ok && got.String() != tt.want {
				t.Errorf("%s: %s of %s: %s, want %s", tt.row, tt.request, tt.held, got, tt.want)
			}
			slices.Reverse(held)
		}
	}
}

const (
	g1 = "0e7712be-af06-4421-884b-496f833c8ec1"
	n1 = "0E7712BEAF064421884B496F833C8EC1"
)

func TestParseRequest(t *testing.T) {
	for _, tt := range []struct {
		row, path, version, name string
		age                      uint32
	}{
		{"P01", "v3.1.0/app.pdb/" + g1 + "/1", "3.1.0", "app.pdb", 1},
		{"P02", "v3.1.0/app.pdb/" + g1, "3.1.0", "app.pdb", 1},
		{"P03", "v3.1.0/app.pdb/" + g1 + "/", "3.1.0", "app.pdb", 1},
		{"P03", "v3.1.0/app.pdb/" + g1 + "/1/", "3.1.0", "app.pdb", 1},
		{"P04", "v3.1.0/app.pdb/" + n1, "3.1.0", "app.pdb", 1},
		{"P04", "v3.1.0/app.pdb/" + strings.ToLower(n1), "3.1.0", "app.pdb", 1},
		{"P04", "v3.1.0/app.pdb/{" + g1 + "}", "3.1.0", "app.pdb", 1},
		{"P04", "v3.1.0/app.pdb/(" + g1 + ")", "3.1.0", "app.pdb", 1},
		{"P04", "v3.1.0/app.pdb/{" + n1 + "}/1", "3.1.0", "app.pdb", 1},
		{"P05", "V3.1.0/APP.PDB/" + g1 + "/01", "3.1.0", "APP.PDB", 1},
		{"P06", "v03.01.00/app.pdb/" + g1, "3.1.0", "app.pdb", 1},
		{"P07", "v3.1.0/app.pdb/" + g1 + "/33", "3.1.0", "app.pdb", 33},
		{"P08", "v3.1.0/app.pdb/" + g1 + "/21", "3.1.0", "app.pdb", 21},
		{"age 0", "v3.1.0/app.pdb/" + g1 + "/0", "3.1.0", "app.pdb", 0},
		{"largest", "v65535.255.255/app.pdb/" + g1 + "/4294967295", "65535.255.255", "app.pdb", 4294967295},
		{"too old is still a request", "v2.9.9/chrome.dll.pdb/" + g1, "2.9.9", "chrome.dll.pdb", 1},
		{"C05", "v0.0.0/x.ni.pdb/" + g1, "0.0.0", "x.ni.pdb", 1},
		{"any name", "v3.1.0/größe 日本/" + g1, "3.1.0", "größe 日本", 1},
	} {
		r, err := ParseRequest(strings.Split(tt.path, "/"))
		if err != nil {
			t.Errorf("%s: ParseRequest: error %v, want no error", tt.row, err)
			continue
		}
		if r.Version.String() != tt.version || r.Key.Name != tt.name || r.Key.ID.GUID.String() != g1 || r.Key.ID.Age != tt.age || r.HexOnly {
			t.Errorf("%s: got %+v, want Version.String() %v, Key.Name %v, Key.ID.GUID.String() %v, Key.ID.Age %v, HexOnly false", tt.row, r, tt.version, tt.name, g1, tt.age)
		}
		again, err := ParseRequest(r.Segments())
		if err != nil || again.Key != r.Key || again.Version != r.Version {
			t.Errorf("%s: %v reads as %+v, %v", tt.row, r.Segments(), again, err)
		}
	}
	if a, b := (Key{Name: "APP.pdb"}), (Key{Name: "app.PDB"}); a.Fold() != b.Fold() {
		t.Error("P05: names do not compare without regard to case")
	}
}

// TestHexAge: an age that a client may have written like the folders do.
func TestHexAge(t *testing.T) {
	for _, tt := range []struct {
		age      string
		dec, hex uint32 // hex 0: none
		only     bool
	}{{"1", 1, 0, false}, {"09", 9, 0, false}, {"21", 21, 33, false}, {"1F", 0, 31, true}, {"ffffffff", 0, 0xffffffff, true}, {"4294967295", 4294967295, 0, false}} {
		r, err := ParseRequest([]string{"v3.1.0", "app.pdb", g1, tt.age})
		if err != nil {
			t.Errorf("%s: ParseRequest: error %v, want no error", tt.age, err)
			continue
		}
		if r.Key.ID.Age != tt.dec || r.Hex.ID.Age != tt.hex || r.HexOnly != tt.only || (r.Hex != Key{}) != (tt.hex != 0) || r.HexOnly != (r.Key == Key{}) {
			t.Errorf("P09: ParseRequest with age %s: %+v, want age %d, or %d read as hex, hex only %v", tt.age, r, tt.dec, tt.hex, tt.only)
		}
	}
}

func TestParseRequestMalformed(t *testing.T) {
	for row, paths := range map[string][]string{
		"M01": {"v3.1/app.pdb/" + g1, "v3.1.0.0/app.pdb/" + g1, "v3.1.0-beta/app.pdb/" + g1, "v3.300.0/app.pdb/" + g1, "v70000.0.0/app.pdb/" + g1,
			"v-3.1.0/app.pdb/" + g1, "3.1.0/app.pdb/" + g1, "vv3.1.0/app.pdb/" + g1, "v3. 1.0/app.pdb/" + g1, "v/app.pdb/" + g1},
		"M02": {"v3.1.0/app.pdb/" + n1[1:], "v3.1.0/app.pdb/" + n1 + "0", "v3.1.0/app.pdb/g" + n1[1:], "v3.1.0/app.pdb/{" + g1, "v3.1.0/app.pdb/" + g1 + "}",
			"v3.1.0/app.pdb/{" + g1 + ")", "v3.1.0/app.pdb/{{" + g1 + "}}", "v3.1.0/app.pdb/" + g1[:35], "v3.1.0/app.pdb/" + strings.Replace(g1, "-", "", 1), "v3.1.0/app.pdb/"},
		"M03": {"v3.1.0/app.pdb/" + g1 + "/-1", "v3.1.0/app.pdb/" + g1 + "/4294967296", "v3.1.0/app.pdb/" + g1 + "/x", "v3.1.0/app.pdb/" + g1 + "/1.0",
			"v3.1.0/app.pdb/" + g1 + "/0x1", "v3.1.0/app.pdb/" + g1 + "/+1", "v3.1.0/app.pdb/" + g1 + "/ 1", "v3.1.0/app.pdb/" + g1 + "/1 ", "v3.1.0/app.pdb/" + g1 + "/1_0"},
		"M04": {"v3.1.0/app.pdb/" + g1 + "/1/2", "v3.1.0/app.pdb", "v3.1.0", "", "v3.1.0/app.pdb/" + g1 + "/1//"},
	} {
		for _, p := range paths {
			if r, err := ParseRequest(strings.Split(p, "/")); !errors.Is(err, ErrPath) || r != (Request{}) {
				t.Errorf("%s, %s: ParseRequest: %+v, error %v; want ErrPath, (Request{})", row, p, r, err)
			}
		}
	}
	for _, name := range []string{"..", ".", "", `..\..\x`, "a/b.pdb", `a\b.pdb`, "a:b.pdb", "\x00", "a\x00.pdb", ".temp", "x.", "x ", "a*", "a?", `a"`, "a<", "a>", "a|", "a\n", "a\x7f", "a\u0085", "\xff.pdb", strings.Repeat("x", 256)} {
		if r, err := ParseRequest([]string{"v3.1.0", name, g1}); !errors.Is(err, ErrPath) || r != (Request{}) {
			t.Errorf("%q: ParseRequest: %+v, error %v; want ErrPath, (Request{})", name, r, err)
		}
	}
	if !ValidName(strings.Repeat("x", 255)) || !ValidName(" a..pdb") {
		t.Error("a good name is refused")
	}
}

func TestParseExceeds(t *testing.T) {
	for _, tt := range []struct {
		row   string
		lines []string
		want  string // "": ErrHeader
	}{
		{"I01", []string{"3.1.0"}, "3.1.0"}, {"I02", []string{"3.0.9"}, "3.0.9"}, {"newer than any request", []string{"65535.255.255"}, "65535.255.255"},
		{"I04", []string{"abc"}, ""}, {"I04", []string{"3.0"}, ""}, {"I04", []string{"0.9.0"}, ""}, {"I04", []string{"3.0.0.1"}, ""},
		{"I04", []string{"3.0.0, 3.0.1"}, ""}, {"I04", []string{"3.0.300"}, ""}, {"I04", []string{"3.0.0", "3.0.1"}, ""}, {"I04", []string{""}, ""},
		{"I05", []string{" v3.0.0 "}, "3.0.0"}, {"sample's slips", []string{"xx3.0.0yy"}, ""},
		{"pre-release", []string{"3.2.0-beta"}, "3.2.0-beta"}, {"older than the protocol", []string{"2.1.0"}, "2.1.0"}, {"tab", []string{"\t3.0.0"}, "3.0.0"},
	} {
		v, err := ParseExceeds(tt.lines)
		if tt.want == "" {
			if !errors.Is(err, ErrHeader) || !v.IsZero() {
				t.Errorf("%s, %q: got %v, error %v; want ErrHeader, v.IsZero()", tt.row, tt.lines, v, err)
			}
		} else if err != nil || v.String() != tt.want {
			t.Errorf("%s, %q: got %v, error %v; want String() %v", tt.row, tt.lines, v, err, tt.want)
		}
	}
	if v, err := ParseExceeds(nil); err != nil || !v.IsZero() {
		t.Errorf("no header: %v, %v", v, err)
	}
}

func TestRetryHeaders(t *testing.T) {
	for _, tt := range []struct {
		row   string
		lines []string
		want  bool
	}{{"A01", []string{"true"}, true}, {"A02", []string{"", "true"}, true}, {"A03", []string{"TRUE"}, true}, {"A04", []string{"false"}, false},
		{"A04", []string{"1"}, false}, {"A04", []string{""}, false}, {"A04", nil, false}, {"both", []string{"false", " True "}, true}, {"A04", []string{"true."}, false}} {
		if got := AllowsRetry(tt.lines...); got != tt.want {
			t.Errorf("%s, %q: AllowsRetry: %v, want %v", tt.row, tt.lines, got, tt.want)
		}
	}
	for version, want := range map[string]bool{"3.0.0": false, "3.1.0": false, "3.1.1": true, "3.2.0": true, "4.0.0": true} {
		if Async(ver(t, version), false) != want || !Async(ver(t, version), true) {
			t.Errorf("%s: not %v", version, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "1", -time.Hour: "1", time.Second: "1", 1001 * time.Millisecond: "2", 10 * time.Second: "10", time.Hour: "10"} {
		if got := RetryAfter(d); got != want {
			t.Errorf("%v: RetryAfter: %s, want %v", d, got, want)
		}
	}
	for _, tt := range []struct {
		lines []string
		want  time.Duration
		ok    bool
	}{{nil, 0, false}, {[]string{"7"}, 7 * time.Second, true}, {[]string{" 0 "}, time.Second, true}, {[]string{"Wed, 21 Oct 2015 07:28:00 GMT"}, time.Second, true}, {[]string{"-3"}, time.Second, true}, {[]string{"99999999999999"}, time.Second, true}} {
		if d, ok := ParseRetryAfter(tt.lines); d != tt.want || ok != tt.ok {
			t.Errorf("%q: ParseRetryAfter: %v, %v; want %v, %v", tt.lines, d, ok, tt.want, tt.ok)
		}
	}
}

func TestContentType(t *testing.T) {
	if got := ContentType(ver(t, "3.1.0")); got != "application/vnd.ms-symcache; version=3.1.0" {
		t.Errorf(`ContentType: %q, want "application/vnd.ms-symcache; version=3.1.0"`, got)
	}
	for _, tt := range []struct{ in, request, want string }{
		{"application/vnd.ms-symcache; version=3.1.0", "3.2.0", "3.1.0"}, {"Application/VND.ms-symcache;Version=\"3.1.0\"", "3.2.0", "3.1.0"},
		{"application/vnd.ms-symcache", "3.2.0", "3.2.0"}, {"application/vnd.ms-symcache; version=4.0.0", "3.2.0", ""}, {"application/vnd.ms-symcache; version=2.0.0", "3.2.0", ""},
		{"application/vnd.ms-symcache; version=x", "3.2.0", ""}, {"application/vnd.ms-symcache; version=", "3.2.0", ""}, {"application/octet-stream", "3.2.0", ""}, {"text/html; version=3.1.0", "3.2.0", ""}, {"", "3.2.0", ""},
	} {
		v, err := ParseContentType(tt.in, ver(t, tt.request))
		if tt.want == "" {
			if !errors.Is(err, ErrContent) || !v.IsZero() {
				t.Errorf("%q: got %v, error %v; want ErrContent, v.IsZero()", tt.in, v, err)
			}
		} else if err != nil || v.String() != tt.want {
			t.Errorf("%q: got %v, error %v; want String() %v", tt.in, v, err, tt.want)
		}
	}
}

func TestFolder(t *testing.T) {
	k := Key{"chrome_child.dll.pdb", debugid.ID{Age: 1}}
	var err error
	if k.ID.GUID, err = debugid.ParseGUID("90E6CD6C673057E64C4C44205044422E"); err != nil {
		t.Fatal(err)
	}
	if got := k.Path(ver(t, "3.1.0")); got != "chrome_child.dll.pdb/90E6CD6C673057E64C4C44205044422E1/chrome_child.dll.pdb-v3.1.0.symcache" {
		t.Errorf("Path: %q, want %q", got, "chrome_child.dll.pdb/90E6CD6C673057E64C4C44205044422E1/chrome_child.dll.pdb-v3.1.0.symcache")
	}
	k.ID.Age = 0x2fa
	if got := path.Base(path.Dir(k.Path(MinVersion))); got != "90E6CD6C673057E64C4C44205044422E2FA" {
		t.Errorf("the age stands in hex without zeros: %s", got)
	}
	lower := strings.ToLower(n1)
	for _, tt := range []struct {
		path    string
		kind    EntryKind
		key     string
		version string
		say     string
	}{
		{"app.pdb/" + n1 + "1/app.pdb-v3.1.0.symcache", File, "app.pdb " + n1 + "1", "3.1.0", ""},
		{`C:\SymCache\App.pdb\` + lower + `21\app.PDB-V3.10.2-beta-1.SYMCACHE`, File, "App.pdb " + n1 + "21", "3.10.2-beta-1", ""},
		{"/srv/app.pdb/" + n1 + "ffffffff/app.pdb-v3.1.0.symcache", File, "app.pdb " + n1 + "FFFFFFFF", "3.1.0", ""},
		{"a-v3.0.0.pdb/" + n1 + "1/a-v3.0.0.pdb-v3.1.0.symcache", File, "a-v3.0.0.pdb " + n1 + "1", "3.1.0", ""},
		{"app.pdb/" + n1 + "1/app.pdb-v3.2.0.negativesymcache", Negative, "app.pdb " + n1 + "1", "3.2.0", ""},
		{"app.pdb/" + n1 + "1/app.pdb-v3.1.0.symcache.pending", Unfinished, "", "", ""}, {"x/y.PENDING", Unfinished, "", "", ""}, {"a.tmp", Unfinished, "", "", ""}, {"a.error", Unfinished, "", "", ""},
		{"chrome.exe-54e3aecf000d3000v1.symcache", Old, "", "", ""}, {"x/chrome.dll-" + lower + "1v2.symcache", Old, "", "", ""},
		{"", 0, "", "", "empty path"}, {"//", 0, "", "", "empty path"}, {"app.pdb/" + n1 + "1/app.pdb", 0, "", "", "does not end in .symcache"},
		{"app.pdb/" + n1 + "1/app.pdb.symcache", 0, "", "", "version such as"}, {"app.pdb/" + n1 + "1/app.pdb-v3.1.symcache", 0, "", "", "version such as"},
		{"app.pdb/" + n1 + "1/app.pdb-v3.300.0.symcache", 0, "", "", "not a SymCache version"}, {"app.pdb/" + n1 + "1/-v3.1.0.symcache", 0, "", "", "version such as"},
		{"app.pdb-v3.1.0.symcache", 0, "", "", "outside of its folders"}, {n1 + "1/app.pdb-v3.1.0.symcache", 0, "", "", "outside of its folders"},
		{"/home/user/app.pdb-v3.1.0.symcache", 0, "", "", "outside of its folders"},
		{"app.pdb/" + n1 + "1/b.pdb-v3.1.0.symcache", 0, "", "", "different PDB"}, {"app.pdb/" + n1 + "/app.pdb-v3.1.0.symcache", 0, "", "", "not a GUID with age"},
		{"app.pdb/" + n1 + "123456789/app.pdb-v3.1.0.symcache", 0, "", "", "not a GUID with age"}, {"app.pdb/418E89C31/app.pdb-v3.1.0.symcache", 0, "", "", "not a GUID with age"},
		{"app.pdb/" + strings.Repeat("0", 33) + "/app.pdb-v3.1.0.symcache", 0, "", "", "not a GUID with age"},
		{".temp/" + n1 + "1/.temp-v3.1.0.symcache", 0, "", "", "hidden"}, {"app.pdb/.symdepot-tmp/x", 0, "", "", "hidden"}, {"a:b/" + n1 + "1/a:b-v3.1.0.symcache", 0, "", "", "invalid name"},
	} {
		e, err := ParsePath(tt.path)
		if tt.say != "" {
			if !errors.Is(err, ErrEntry) || !strings.Contains(err.Error(), tt.say) || e != (Entry{}) {
				t.Errorf("%s: %+v, %v; want %s", tt.path, e, err, tt.say)
			}
			continue
		}
		if err != nil || e.Kind != tt.kind || e.Kind != Unfinished && e.Kind != Old && (e.Version.String() != tt.version || e.Key.Name+" "+e.Key.Folder() != tt.key) {
			t.Errorf("ParsePath(%s): %+v, error %v; want kind %v, version %s, key %s", tt.path, e, err, tt.kind, tt.version, tt.key)
		}
	}
	if name, v, err := ParseFileName("app.pdb-v3.1.0.symcache"); name != "app.pdb" || v.String() != "3.1.0" || err != nil {
		t.Errorf(`ParseFileName("app.pdb-v3.1.0.symcache"): %q, %v, error %v; want "app.pdb", String() "3.1.0"`, name, v, err)
	}
	if _, _, err := ParseFileName("app.pdb-v3.1.0.negativesymcache"); !errors.Is(err, ErrEntry) {
		t.Error(err)
	}
}

func TestCheckContent(t *testing.T) {
	for head, want := range map[string]error{"SYMC\x09\x00": ErrForeign, "CMYS": ErrForeign, "": ErrEntry, "A310": nil, "S": nil, "SYM": nil,
		"MZ not a symcache": ErrOtherFormat, "\x7fELF\x02": ErrOtherFormat, "<!DOCTYPE html>": ErrOtherFormat, "\r\n <html>": ErrOtherFormat, "\uFEFF<?xml": ErrOtherFormat,
		"PK\x03\x04": ErrOtherFormat, "PK\x05\x06": ErrOtherFormat, "Microsoft C/C++ MSF 7.00": ErrOtherFormat, "MSCF\x00": ErrOtherFormat, "\x1f\x8b\x08": ErrOtherFormat,
		"   ": ErrOtherFormat, "M": nil, "P": nil} {
		if err := Detect([]byte(head)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", head, err, want)
		}
	}
}

func TestParseExpiry(t *testing.T) {
	want := time.Date(2020, 1, 27, 10, 34, 56, 123456700, time.UTC)
	for _, s := range []string{"2020-01-27T10:34:56.1234567Z", "\uFEFF2020-01-27T12:34:56.1234567+02:00\r\n"} {
		if got, err := ParseExpiry(s); err != nil || got != want {
			t.Errorf("%q: ParseExpiry: %v, error %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "tomorrow", "2020-01-27"} {
		if _, err := ParseExpiry(s); !errors.Is(err, ErrEntry) {
			t.Errorf("%q: ParseExpiry: error %v, want ErrEntry", s, err)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add("v3.1.0/app.pdb/" + g1 + "/33")
	f.Add("V03.01.00/a b.pdb/{" + n1 + "}/1F")
	f.Add("v65535.255.255/x/(" + g1 + ")/")
	f.Fuzz(func(t *testing.T, p string) {
		r, err := ParseRequest(strings.Split(p, "/"))
		if err != nil {
			if !errors.Is(err, ErrPath) || r != (Request{}) {
				t.Fatalf("got %+v, error %v; want ErrPath, (Request{})", r, err)
			}
			return
		}
		if r.HexOnly {
			if r.Key != (Key{}) || r.Hex == (Key{}) {
				t.Fatalf("got %+v, want Key (Key{}), Hex not (Key{})", r)
			}
			r.Key, r.Hex, r.HexOnly = r.Hex, Key{}, false
		}
		if again, err := ParseRequest(r.Segments()); err != nil || again.Key != r.Key || again.Version != r.Version {
			t.Fatalf("%+v prints as %q and reads as %+v, %v", r, r.Segments(), again, err)
		}
		if r.Key.ID.IsZero() {
			return
		}
		if e, err := ParsePath(r.Key.Path(r.Version)); err != nil || e != (Entry{File, r.Key, r.Version}) {
			t.Fatalf("%+v lies at %q and reads as %+v, %v", r, r.Key.Path(r.Version), e, err)
		}
	})
}

func FuzzParsePath(f *testing.F) {
	f.Add(`C:\SymCache\App.pdb\` + n1 + `21\app.PDB-V3.10.2-beta-1.SYMCACHE`)
	f.Add("app.pdb/" + n1 + "1/app.pdb-v3.1.0.negativesymcache")
	f.Add("chrome.exe-54e3aecf000d3000v1.symcache")
	f.Fuzz(func(t *testing.T, p string) {
		e, err := ParsePath(p)
		if err != nil || e.Kind != File {
			if err != nil && (!errors.Is(err, ErrEntry) || e != (Entry{})) {
				t.Fatalf("ParsePath(%q): %+v, error %v; want ErrEntry and no entry", p, e, err)
			}
			return
		}
		if !ValidName(e.Key.Name) || e.Key.ID.IsZero() {
			t.Fatalf("got %+v, want ValidName(e.Key.Name), not e.Key.ID.IsZero()", e)
		}
		if again, err := ParsePath(e.Key.Path(e.Version)); err != nil || again != e {
			t.Fatalf("%+v reads as %+v, %v", e, again, err)
		}
	})
}
