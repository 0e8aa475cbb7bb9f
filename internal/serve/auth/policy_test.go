package auth

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestTokenShape(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		s := NewToken()
		if !IsToken(s) || seen[s] || len(s) != 46 {
			t.Fatalf("NewToken: %q, want a new token of 46 characters each time", s)
		}
		seen[s] = true
	}
	d43 := strings.Repeat("a", 42) + "-"
	for s, want := range map[string]bool{
		"sd_" + d43: true, "sd_" + d43[1:]: false, "sd_" + d43 + "a": false, "SD_" + d43: false, "sd-" + d43: false,
		"sd_" + d43[:42] + "+": false, "sd_" + d43[:42] + "/": false, "sd_" + d43[:42] + "=": false, "": false, "sd_": false,
		"sd_" + d43[:41] + "é": false, "sd_" + d43[:42] + "_": true,
	} {
		if IsToken(s) != want {
			t.Errorf("IsToken(%q) is %v, want %v", s, !want, want)
		}
	}
	tok := "sd_" + d43
	for _, test := range []struct {
		segs []string
		rest int
		ok   bool
	}{
		{[]string{"t", tok, "a", "b"}, 2, true},
		{[]string{"t", tok}, 0, true},
		{[]string{"t", "t.pdb", "K", "t.pdb"}, 4, false},
		{[]string{"t", "K", "t"}, 3, false},
		{[]string{"T", tok, "a"}, 3, false},
		{[]string{"t"}, 1, false},
		{nil, 0, false},
		{[]string{tok, "t"}, 2, false},
	} {
		got, rest, ok := PathToken(test.segs)
		if ok != test.ok || len(rest) != test.rest || ok && got != tok {
			t.Errorf("PathToken(%v): %q, %v, %v; want the token: %v, and %d segments left", test.segs, got, rest, ok, test.ok, test.rest)
		}
	}
}

func TestMakeToken(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	secret, row, err := MakeToken(TokenSpec{Name: "ci", Scopes: []string{"write", "read", "write"}, Products: []string{"Game"}, Lifetime: time.Hour, CreatedBy: "me"}, now)
	if err != nil || !IsToken(secret) || row.Hash != HashToken(secret) || !slices.Equal(row.Scopes, []string{"read", "write"}) ||
		!row.Expires.Equal(now.Add(time.Hour)) || !row.Created.Equal(now) || row.CreatedBy != "me" || row.ID == "" || strings.Contains(secret, row.ID) {
		t.Errorf(`MakeToken: %q, %+v, error %v; want IsToken(secret), Hash HashToken(secret), Scopes []string{"read", "write"}, row.Expires.Equal(now.Add(time.Hour)), row.Created.Equal(now), CreatedBy "me", ID not "", one without %q`, secret, row, err, row.ID)
	}
	if _, row, err := MakeToken(TokenSpec{Name: "x"}, now); err != nil || !slices.Equal(row.Scopes, []string{"read"}) || !row.Expires.IsZero() || row.Products != nil {
		t.Errorf(`MakeToken: %+v, error %v; want Scopes []string{"read"}, row.Expires.IsZero(), Products nil`, row, err)
	}
	for _, spec := range []TokenSpec{
		{}, {Name: "a\nb"}, {Name: strings.Repeat("x", 300)}, {Name: "\xff"}, {Name: NewToken()},
		{Name: "x", Scopes: []string{"Read"}}, {Name: "x", Scopes: []string{""}},
		{Name: "x", Scopes: []string{"admin"}, Products: []string{"Game"}},
		{Name: "x", Products: []string{}}, {Name: "x", Lifetime: -1},
	} {
		if _, _, err := MakeToken(spec, now); err == nil {
			t.Errorf("%+v is taken, want an error", spec)
		}
	}
}

func TestDecide(t *testing.T) {
	p, err := NewPolicy(PolicyConfig{
		Admit: []string{"*@CORP.EXAMPLE"},
		Groups: map[string][]string{
			"game":  {"alice@CORP.EXAMPLE", "cert:build-*", "sid:S-1-5-21-1-2-3-1100"},
			"admin": {"root@CORP.EXAMPLE"},
			"all":   {"group:game", "group:admin"},
		},
		Grants: []Grant{
			{Who: []string{"group:game"}, Read: []string{"Game", "Engine"}, Write: []string{"Game"}},
			{Who: []string{"alice@*"}, Read: []string{"App", "Game"}},
			{Who: []string{"group:admin"}, Admin: true},
			{Who: []string{"group:all"}, Read: []string{""}},
			{Who: []string{"basic:build-1"}, Read: []string{"*"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Demands() {
		t.Error("nothing is demanded though rights are named")
	}
	for _, test := range []struct {
		id    Identity
		in    bool
		all   bool
		reads string
		write string
		admin bool
	}{
		{Identity{}, false, false, "", "", false},
		{Identity{Name: "alice@CORP.EXAMPLE", Method: MethodNegotiate}, true, false, ",App,Engine,Game", "Game", false},
		{Identity{Name: "alice@EVIL.EXAMPLE", Method: MethodNegotiate}, true, false, "App,Game", "", false},
		{Identity{Name: "Alice@EVIL.EXAMPLE", Method: MethodNegotiate}, false, false, "", "", false},
		{Identity{Name: "bob@CORP.EXAMPLE", Method: MethodNegotiate}, true, false, "", "", false},
		{Identity{Name: "bob@CORP.EXAMPLE", Method: MethodNegotiate, SIDs: []string{"S-1-5-21-1-2-3-1100"}}, true, false, ",Engine,Game", "Game", false},
		{Identity{Name: "bob@evil@CORP.EXAMPLE", Method: MethodNegotiate}, false, false, "", "", false},
		{Identity{Name: "bob@SUB.CORP.EXAMPLE", Method: MethodNegotiate}, false, false, "", "", false},
		{Identity{Name: "root@CORP.EXAMPLE", Method: MethodNegotiate}, true, true, "", "*", true},
		{Identity{Name: "build-7", Method: MethodCertificate}, true, false, ",Engine,Game", "Game", false},
		{Identity{Name: "build-7", Method: MethodBasic}, false, false, "", "", false},
		{Identity{Name: "build-1", Method: MethodBasic}, true, true, "", "", false},
		{Identity{Name: "root@CORP.EXAMPLE", Method: MethodToken}, true, false, "", "", false},
		{Identity{Method: MethodToken, Scopes: []string{"read"}}, true, true, "", "", false},
		{Identity{Method: MethodToken, Scopes: []string{"read"}, Products: []string{"B", "A"}}, true, false, "B,A", "", false},
		{Identity{Method: MethodToken, Scopes: []string{"read"}, Products: []string{}}, true, false, "", "", false},
		{Identity{Method: MethodToken, Scopes: []string{"write"}}, true, false, "", "*", false},
		{Identity{Method: MethodToken, Scopes: []string{"admin"}}, true, true, "", "*", true},
		{Identity{Method: MethodToken, Scopes: []string{"admin"}, Products: []string{"A"}}, true, false, "", "", false},
		{Identity{Method: MethodToken, Scopes: []string{"ADMIN", "x"}}, true, false, "", "", false},
	} {
		r := p.Decide(&test.id)
		write := strings.Join(r.WriteProducts, ",")
		if r.WriteAll {
			write = "*"
		}
		if r.Admitted != test.in || r.All != test.all || strings.Join(r.Products, ",") != test.reads || write != test.write || r.Admin != test.admin || r.Write != (write != "") {
			t.Errorf(`%+v: got %+v, %v; want Admitted %v, All %v, strings.Join(r.Products, ",") %v, %v, Admin %v, Write (write != "")`, test.id, r, write, test.in, test.all, test.reads, test.write, test.admin)
		}
	}
}

// chainOfGroups returns n groups, each of which contains the next one the given
// number of times.
func chainOfGroups(n, times int) map[string][]string {
	groups := map[string][]string{"1": {"alice"}}
	for i := 2; i <= n; i++ {
		groups[strconv.Itoa(i)] = slices.Repeat([]string{"group:" + strconv.Itoa(i-1)}, times)
	}
	return groups
}

func TestGroupDepth(t *testing.T) {
	if _, err := NewPolicy(PolicyConfig{Groups: chainOfGroups(16, 1), Admit: []string{"group:16"}}); err != nil {
		t.Errorf("groups 16 levels deep: %v", err)
	}
}

func TestPolicyMistakes(t *testing.T) {
	for _, test := range []struct {
		c    PolicyConfig
		want string
	}{
		{PolicyConfig{Demand: true, Anonymous: []string{"A"}}, "exclude each other"},
		{PolicyConfig{Admit: []string{"group:x"}}, `unknown group "x"`},
		{PolicyConfig{Groups: map[string][]string{"a": {"group:b"}, "b": {"group:a"}}}, "contains itself"},
		{PolicyConfig{Groups: chainOfGroups(17, 1)}, "groups may contain each other 16 levels deep"},
		{PolicyConfig{Groups: chainOfGroups(16, 10)}, "more than 10000 patterns"},
		{PolicyConfig{Admit: make([]string, 1), Groups: map[string][]string{"a": slices.Repeat([]string{"x"}, 10_001)}}, "more than 10000 patterns"},
		{PolicyConfig{Admit: []string{"krb:alice"}}, "kerberos"},
		{PolicyConfig{Admit: []string{"token:ci"}}, "tokens"},
		{PolicyConfig{Admit: []string{"basic:"}}, "no name after the prefix"},
		{PolicyConfig{Admit: []string{""}}, "no name after the prefix"},
		{PolicyConfig{Grants: []Grant{{Read: []string{"A"}}}}, "grant 1 has no pattern"},
	} {
		if _, err := NewPolicy(test.c); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: NewPolicy: error %v, want an error, one with %q", test.c, err, test.want)
		}
	}
}

func TestRedact(t *testing.T) {
	tok := NewToken()
	const hex = "0123456789abcdef"
	enc := "%73%64%5f" + tok[3:20] + "%" + string(hex[tok[20]>>4]) + string(hex[tok[20]&15]) + tok[21:]
	for in, want := range map[string]string{
		"/t/" + tok + "/a.pdb/K/a.pdb":        "/t/sd_***/a.pdb/K/a.pdb",
		tok:                                   "sd_***",
		tok + " " + tok:                       "sd_*** sd_***",
		"https://x:" + tok + "@host/":         "https://x:sd_***@host/",
		"/t/%73d_" + tok[3:] + "/a":           "/t/sd_***/a",
		"/t/%2573%2564%255F" + tok[3:] + "/a": "/t/sd_***/a",
		"/t/" + enc + "/a":                    "/t/sd_***/a",
		"/t/" + tok[:44] + "/a":               "/t/sd_***/a",
		"/t/" + tok + "more/a":                "/t/sd_***/a",
		"ssd_" + tok[3:]:                      "ssd_***",
		"%":                                   "%",
		"%2":                                  "%2",
		"%25%25%":                             "%25%25%",
		"sd_":                                 "sd_",
		"/sd_card.pdb/K/sd_card_controller_test.pd": "/sd_card.pdb/K/sd_card_controller_test.pd",
		"": "",
	} {
		if got := Redact(in); got != want {
			t.Errorf("Redact(%q) is %q, want %q", in, got, want)
		}
	}
}

// TestRedactBroken: mistyped or broken tokens leave no part from which they
// could be guessed.
func TestRedactBroken(t *testing.T) {
	t.Parallel()
	const digits = "Vb3kQz8mXw0fTn5LrC7yHs2dJg9pAe4uKi6oBvGtMx1" // 43
	for _, in := range []string{
		"/t/" + digits + "/a.pdb/K/a.pdb",
		"/t/SD_" + digits + "/a.pdb", "/t/Sd_" + digits + "/a.pdb", "/t/sd-" + digits + "/a.pdb", "/T/" + digits + "/a.pdb",
		"/symbols/t/" + digits + "/a.pdb", "/x%2ft%2f" + digits + "/a.pdb",
		"/" + digits + "/x/y", "/x/" + digits, "/x%2f" + digits + "%2Fy", digits + "/x", "/symbols/" + digits + "?x=y", "GET /" + digits + " HTTP/1.1",
		"/t/sd_" + digits[:37] + "/a.pdb", "/t/sd_" + digits[:25] + "/a.pdb", "x?token=sd_" + digits[:37], "x?token=SD_" + digits,
	} {
		if got := Redact(in); strings.Contains(got, digits[2:12]) {
			t.Errorf("Redact(%q) is %q, which shows the token", in, got)
		}
	}
	for _, gap := range []string{"/", "%2f", "%0a", "%0d%0a", "%20", "%00", "+", "%C2%AD", "\u00ad", "\n", "=\r\n"} {
		for _, at := range []int{1, 5, 20, 22, 27, 37} {
			for _, before := range []string{"/t/sd_", "/sd_", "/t/SD_", "agent sd_"} {
				in := before + digits[:at] + gap + digits[at:] + "/app.pdb"
				got := Redact(in)
				for i := 0; i+8 <= len(digits); i++ {
					if strings.Contains(got, digits[i:i+8]) {
						t.Errorf("Redact(%q) is %q, which shows %q", in, got, digits[i:i+8])
						break
					}
				}
				if !strings.HasSuffix(got, "/app.pdb") {
					t.Errorf("Redact(%q) is %q, which lost the rest of the path", in, got)
				}
			}
		}
	}
	// What only looks like one from afar stays.
	for _, in := range []string{
		"/tcpip.sys/5A3B1C2D45000/tcpip.sys", "/t/tcpip.sys/5A3B1C2D45000/tcpip.sys", "/t.pdb/3BD8C3C3B1544CE9AB8D71A9F3E9A4D31/t.pdb",
		"/at/Vb3kQz8mXw0fTn5LrC7yHs2dJg9pAe4uKi6/x", "/sd_card_driver_for_everything.ko/elf-buildid-00112233445566778899aabbccddeeff00112233/x",
		"/" + strings.ToLower(digits) + "/x", "/" + strings.ToUpper(digits) + "/x", "/" + digits + ".pdb/x", "/" + digits + "2/x", "/" + digits[1:] + "/x",
		"/t", "/t/", "t/x", "sd_***/Vb3kQz8mXw0fTn5LrC7yHs2dJg9p",
	} {
		if got := Redact(in); got != in {
			t.Errorf("Redact(%q) is %q, want it unchanged", in, got)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("/t/", "/a", uint8(0))
	f.Add("%25", "%", uint8(3))
	f.Add("sd_", "sd_", uint8(46))
	const tok = "sd_AAAAAAAAAAbbbbbbbbbbCCCCCCCCCCdddddddddd-_0"
	f.Fuzz(func(t *testing.T, before, after string, escape uint8) {
		s := tok
		if i := int(escape) % (len(tok) + 1); i < len(tok) {
			const hex = "0123456789ABCDEF"
			s = tok[:i] + "%" + string(hex[tok[i]>>4]) + string(hex[tok[i]&15]) + tok[i+1:]
		}
		got := Redact(before + s + after)
		if strings.Contains(got, "CCCCCCCCCC") && !strings.Contains(before+after, "CCCCCCCCCC") {
			t.Fatalf("Redact(%q): %q, want it without the token", before+s+after, got)
		}
		if again := Redact(got); again != got {
			t.Fatalf("%q becomes %q, want %v", got, again, got)
		}
	})
}
