package winservice

import (
	"strings"
	"testing"
)

// The texts of security descriptors as Windows gives them: of a folder that a user made in
// ProgramData, of one that an administrator made there, and of one that PrepareDir made.
const (
	byUser  = "O:S-1-5-21-1004336348-1177238915-682003330-1001D:AI(A;OICIID;FA;;;SY)(A;OICIID;FA;;;BA)(A;OICIIOID;GA;;;CO)(A;OICIID;0x1200a9;;;BU)(A;CIID;DCLCRPCR;;;BU)"
	byAdmin = "O:BAD:AI(A;OICIID;FA;;;SY)(A;OICIID;FA;;;BA)(A;OICIIOID;GA;;;CO)(A;OICIID;0x1200a9;;;BU)(A;CIID;DCLCRPCR;;;BU)"
)

// TestPlanted: what somebody else may have put into the folder of a service is refused.
func TestPlanted(t *testing.T) {
	const service = "symdepot"
	own := folderRights(service)
	inherited := "O:SYD:AI(A;ID;FA;;;SY)(A;ID;FA;;;BA)(A;ID;FA;;;" + accountID(service) + ")"
	for what, tt := range map[string]struct {
		f       found
		planted string // words of the refusal; "": none
		open    string
	}{
		"PrepareDir's own":             {found{dir: true, sddl: own}, "", ""},
		"a file in it":                 {found{links: 1, sddl: inherited}, "", ""},
		"a file of the service":        {found{links: 1, sddl: "O:" + accountID(service) + strings.TrimPrefix(inherited, "O:SY")}, "", ""},
		"a folder of a user":           {found{dir: true, sddl: byUser}, "belongs to the account S-1-5-21-1004336348-1177238915-682003330-1001", "S-1-3-0 CO BU"},
		"a folder of an administrator": {found{dir: true, sddl: byAdmin}, "", "CO BU"},
		"a junction":                   {found{dir: true, leads: true, sddl: own}, "leads elsewhere", ""},
		"a link":                       {found{leads: true, links: 1, sddl: own}, "leads elsewhere", ""},
		"a file with two names":        {found{links: 2, sddl: inherited}, "has 2 names", ""},
		"of another service":           {found{links: 1, sddl: "O:" + accountID("other") + "D:(A;;FA;;;" + accountID("other") + ")"}, "belongs to", accountID("other")},
		"of users":                     {found{links: 1, sddl: "O:BUD:(A;;FA;;;BA)"}, "belongs to the account BU", ""},
		"a user's own rights":          {found{links: 1, sddl: inherited + "(A;;FA;;;S-1-5-21-1-2-3-1001)"}, "", "S-1-5-21-1-2-3-1001"},
		"rights of everybody":          {found{links: 1, sddl: "O:BAD:(A;;FR;;;WD)"}, "", "WD"},
		"a user is denied":             {found{links: 1, sddl: inherited + "(D;;FA;;;S-1-5-21-1-2-3-1001)"}, "", ""},
		"without a list of rights":     {found{links: 1, sddl: "O:BAD:NO_ACCESS_CONTROL"}, "everybody has all rights", "everybody has all rights"},
		"without an owner":             {found{links: 1, sddl: "D:(A;;FA;;;BA)"}, "no owner", "no owner"},
		"a condition":                  {found{links: 1, sddl: `O:BAD:(XA;;FX;;;WD;(@User.Title=="x"))`}, "another kind", "another kind"},
		"a right to an object":         {found{links: 1, sddl: "O:BAD:(OA;;FA;bf967aba-0de6-11d0-a285-00aa003049e2;;BA)"}, "another kind", "another kind"},
		"an empty list":                {found{links: 1, sddl: "O:BAG:BAD:PAI"}, "", ""},
		"a group":                      {found{links: 1, sddl: "O:BAG:DUD:(A;;FA;;;BA)S:(AU;SAFA;FA;;;WD)"}, "", ""},
		"cut short":                    {found{links: 1, sddl: "O:BAD:(A;;FA;;;BA"}, "cut short", "cut short"},
		"nothing":                      {found{}, "no owner", "no owner"},
	} {
		tt.f.path = `C:\ProgramData\symdepot\x`
		check := func(rule string, err error, want string) {
			t.Helper()
			words := strings.Fields(want)
			named := err != nil && strings.Contains(err.Error(), tt.f.path)
			fits := err != nil && strings.Contains(err.Error(), want)
			for _, w := range words { // any of the accounts
				fits = fits || err != nil && strings.Contains(err.Error(), "the account "+w+" has rights")
			}
			if want == "" && err != nil || want != "" && (!fits || !named) {
				t.Errorf("%s, %s: error %v; want %q (empty: none) and the path", what, rule, err, want)
			}
		}
		check("planted", tt.f.planted(service), tt.planted)
		check("open", tt.f.open(service), tt.open)
	}
	for what, tt := range map[string]struct {
		f    found
		want bool
	}{
		"PrepareDir's own":      {found{dir: true, sddl: own}, true},
		"as Windows returns it": {found{dir: true, sddl: strings.Replace(own, "D:P", "D:PAI", 1)}, true},
		"an administrator's":    {found{dir: true, sddl: byAdmin}, false},
		"a user's":              {found{dir: true, sddl: byUser}, false},
		"one that inherits":     {found{dir: true, sddl: strings.Replace(own, "D:P", "D:AI", 1)}, false},
		"another service's":     {found{dir: true, sddl: folderRights("other")}, false},
		"a junction":            {found{dir: true, leads: true, sddl: own}, false},
	} {
		if got := tt.f.own(service); got != tt.want {
			t.Errorf("%s is PrepareDir's own: %v, want %v", what, got, tt.want)
		}
	}
}

// TestForeign: the folder of another program does not become that of a service.
func TestForeign(t *testing.T) {
	for want, names := range map[string][]string{
		"":        {"symdepot.yaml", "LOG", "Depot"},
		"Windows": {"log", "Windows"},
		"users":   {"symdepot.yaml", "users"},
	} {
		if got := foreign(names, "symdepot.yaml"); got != want {
			t.Errorf("in %q %q is foreign, want %q", names, got, want)
		}
	}
}

// TestServiceNames: the name of a service is that of a folder in ProgramData, and leads
// nowhere else.
func TestServiceNames(t *testing.T) {
	for _, name := range []string{"symdepot", "symdepot-test", "Symbol Server 2", "a.b_c", "x", strings.Repeat("x", 80)} {
		if err := checkName(name); err != nil {
			t.Errorf("%q: %v, want no error", name, err)
		}
	}
	for _, name := range []string{
		"", ".", "..", `..\x`, "../x", `a\b`, "a/b", "a:b", "symdepot.", "symdepot ", " symdepot", ".symdepot", "a\x00b", "größe", "a?", "C:",
		`\\?\C:\x`, strings.Repeat("x", 81),
	} {
		if err := checkName(name); err == nil || !strings.Contains(err.Error(), "letters, digits") {
			t.Errorf("%q: error %v, want one that says what a name is", name, err)
		}
	}
}
