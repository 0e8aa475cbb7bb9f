package symcache

import "testing"

// TestDecide has the rows of the protocol's decision table: what a server with
// those files and transcoders answers, first and, where it must make the file,
// once that has ended one way or the other.
func TestDecide(t *testing.T) {
	const (
		ta, tb, t0 = "3.1.0", "3.2.0 4.1.0", ""
		multi      = "3.0.2 3.1.0 3.2.0 4.0.0"
	)
	type state struct {
		held, makes, failed, exceeds  string
		allows, head, gaveUp, upgrade bool
	}
	for _, tt := range []struct {
		row, request string
		state
		want string // the action, the version sent or the version made
	}{
		{"P01", "3.1.0", state{held: "3.1.0", makes: ta}, "send 3.1.0"},
		{"P10", "3.1.0", state{}, "not found"},
		{"C01", "3.2.0", state{held: "3.1.0", makes: ta}, "send 3.1.0"},
		{"C02", "3.0.5", state{held: "3.1.0", makes: ta}, "send 3.1.0"},
		{"C03", "3.0.0", state{held: "3.1.0", makes: ta}, "send 3.1.0"},
		{"C04", "4.1.0", state{held: "3.1.0", makes: ta}, "send 3.1.0"},
		{"C05", "2.9.9", state{held: "3.1.0 2.9.9", makes: ta}, "not found"},
		{"C05", "0.0.0", state{held: "3.1.0", makes: ta}, "not found"},
		{"C05 async too", "1.0.0", state{makes: ta, allows: true}, "not found"},
		{"C06", "3.1.0", state{held: multi, makes: ta}, "send 3.1.0"},
		{"C07", "3.0.0", state{held: multi, makes: ta}, "send 3.2.0"},
		{"C08", "3.5.0", state{held: multi, makes: ta}, "send 3.2.0"},
		{"C09", "4.0.0", state{held: multi, makes: ta}, "send 4.0.0"},
		{"C10", "4.9.0", state{held: multi, makes: ta}, "send 4.0.0"},
		{"C10", "5.0.0", state{held: multi, makes: ta}, "send 4.0.0"},
		{"C11", "3.9.9", state{held: "4.0.0", makes: t0}, "not found"},
		{"I01", "3.2.0", state{held: "3.1.0", makes: ta, exceeds: "3.1.0"}, "not modified"},
		{"I02", "3.2.0", state{held: "3.1.0", makes: ta, exceeds: "3.0.9"}, "send 3.1.0"},
		{"I06", "3.5.0", state{held: multi, makes: ta, exceeds: "3.2.0"}, "not modified"},
		{"I07", "4.9.0", state{held: multi, makes: ta, exceeds: "3.2.0"}, "send 4.0.0"},
		{"I08", "4.1.0", state{makes: ta, exceeds: "3.1.0"}, "not modified"},
		{"I09 first", "3.1.0", state{held: "3.0.0", makes: ta, exceeds: "3.0.0"}, "wait 3.1.0"},
		{"I09 then", "3.1.0", state{held: "3.0.0", makes: ta, exceeds: "3.0.0", failed: ta}, "not modified"},
		{"I10 first", "3.1.0", state{held: "3.0.0", makes: ta, exceeds: "3.0.0"}, "wait 3.1.0"},
		{"I10 then", "3.1.0", state{held: "3.0.0 3.1.0", makes: ta, exceeds: "3.0.0"}, "send 3.1.0"},
		{"I11", "3.1.0", state{held: "3.0.0", makes: ta, exceeds: "3.0.0", allows: true}, "come again 3.1.0"},
		{"I12", "3.1.0", state{makes: ta, exceeds: "3.0.0", failed: ta}, "not modified"},
		{"I03", "3.1.0", state{held: "3.1.0", makes: ta, exceeds: "3.1.0"}, "not modified"},
		{"I03 with a later version of the same major held", "3.1.0", state{held: "3.2.0", makes: "3.3.0", exceeds: "3.1.0"}, "not modified"},
		{"the client's version is newer than what it asks for", "3.1.0", state{held: "3.1.0 3.3.0", makes: ta, exceeds: "3.2.0"}, "not modified"},
		{"and of a higher major", "3.1.0", state{makes: tb, exceeds: "4.0.0", allows: true}, "not modified"},
		{"nothing held and nobody makes it", "3.1.0", state{makes: t0, exceeds: "3.0.0"}, "not modified"},
		{"known to fail, of a client that repeats", "3.2.0", state{makes: ta, failed: ta, exceeds: "3.0.0", allows: true}, "not modified"},
		{"only a higher major can be made", "3.1.0", state{makes: "4.1.0", exceeds: "3.0.0"}, "not modified"},
		{"every maker has failed", "4.1.0", state{makes: tb, failed: tb, exceeds: "3.0.0"}, "not modified"},
		{"HEAD", "3.1.0", state{makes: t0, exceeds: "3.0.0", head: true}, "not modified"},
		{"C05 with a version", "2.9.9", state{makes: ta, exceeds: "2.0.0"}, "not found"},
		{"S01", "3.1.0", state{makes: ta}, "wait 3.1.0"},
		{"S02", "3.1.0", state{held: "3.1.0", makes: ta}, "send 3.1.0"},
		{"S03 first", "3.0.0", state{makes: ta}, "wait 3.1.0"},
		{"S03 then", "3.0.0", state{held: "3.1.0", makes: ta}, "send 3.1.0"},
		{"S04", "3.1.0", state{makes: ta, failed: ta}, "not found"},
		{"S08", "3.1.0", state{makes: ta, gaveUp: true}, "not found"},
		{"A01", "3.1.0", state{makes: ta, allows: true}, "come again 3.1.0"},
		{"A05", "3.1.1", state{makes: ta}, "come again 3.1.0"},
		{"A06", "4.0.0", state{makes: ta}, "come again 3.1.0"},
		{"A07", "3.2.0", state{makes: ta, failed: ta}, "not found"},
		{"A10", "4.1.0", state{makes: tb}, "come again 4.1.0"},
		{"A11", "3.9.0", state{makes: tb}, "come again 3.2.0"},
		{"A12 first", "4.9.0", state{held: multi, makes: tb, exceeds: "4.0.0"}, "come again 4.1.0"},
		{"A12 then", "4.9.0", state{held: multi, makes: tb, exceeds: "4.0.0", failed: tb}, "not modified"},
		{"A12 with the file known to fail in one", "4.9.0", state{held: multi, makes: tb, exceeds: "4.0.0", failed: "4.1.0"}, "not modified"},
		{"N01", "3.1.0", state{makes: ta, failed: ta}, "not found"},
		{"N03", "3.2.0", state{makes: tb, failed: "3.1.0"}, "come again 3.2.0"},
		{"N05", "3.2.0", state{makes: ta, gaveUp: true}, "not found"},
		{"N05 with a held file", "3.2.0", state{held: "3.0.0", makes: ta, gaveUp: true, upgrade: true}, "send 3.0.0"},
		{"N06", "3.2.0", state{makes: ta}, "come again 3.1.0"},
		{"U01 first", "3.1.0", state{held: "3.0.0", makes: ta, upgrade: true}, "send 3.0.0 making 3.1.0"},
		{"U01 then", "3.1.0", state{held: "3.0.0 3.1.0", makes: ta, upgrade: true}, "send 3.1.0"},
		{"U02", "3.1.0", state{held: "3.0.0", makes: ta}, "send 3.0.0"},
		{"upgrade of the very version", "3.1.0", state{held: "3.1.0", makes: "3.2.0", upgrade: true}, "send 3.1.0 making 3.2.0"},
		{"and then", "3.1.0", state{held: "3.1.0 3.2.0", makes: "3.2.0", upgrade: true}, "send 3.1.0"},
		{"upgrade that fails", "3.1.0", state{held: "3.0.0", makes: ta, failed: ta, upgrade: true}, "send 3.0.0"},
		{"Z01", "3.1.0", state{held: "3.1.0", makes: t0}, "send 3.1.0"},
		{"Z02", "3.1.0", state{makes: t0}, "not found"},
		{"Z02", "3.2.0", state{makes: t0}, "not found"},
		{"Z03", "3.2.0", state{held: "3.1.0", makes: t0, exceeds: "3.1.0"}, "not modified"},
		{"H01", "3.1.0", state{held: "3.1.0", makes: ta, head: true}, "send 3.1.0"},
		{"H02", "3.1.0", state{makes: ta, head: true}, "come again 3.1.0"},
		{"only a higher major", "3.1.0", state{makes: "4.1.0"}, "not found"},
		{"fall back to the lower major", "4.1.0", state{makes: tb, failed: "4.1.0"}, "come again 3.2.0"},
		{"but not to an older version", "4.1.0", state{makes: "4.1.0 4.0.0", failed: "4.1.0"}, "not found"},
		{"both fail", "4.1.0", state{makes: tb, failed: tb}, "not found"},
		{"a held file of too high a major is not newer", "3.5.0", state{held: "4.0.0", makes: t0, exceeds: "3.1.0"}, "not modified"},
		{"a pre-release is never asked for", "3.1.0", state{held: "3.1.0-beta", makes: "3.1.0-beta"}, "not found"},
		{"given up, but the client has what is held", "3.5.0", state{held: "3.0.0", makes: ta, exceeds: "3.0.0", gaveUp: true}, "not found"},
	} {
		s := State{Held: vers(t, tt.held), Producible: vers(t, tt.makes), Failed: vers(t, tt.failed), GaveUp: tt.gaveUp, AllowsRetry: tt.allows, Head: tt.head, Upgrade: tt.upgrade}
		if tt.exceeds != "" {
			s.Exceeds = ver(t, tt.exceeds)
		}
		d := Decide(ver(t, tt.request), s)
		got := d.Action.String()
		if d.Action == Send {
			got += " " + d.Version.String()
			if !d.Make.IsZero() {
				got += " making " + d.Make.String()
			}
		} else if !d.Make.IsZero() {
			got += " " + d.Make.String()
		}
		if got != tt.want || d.Why == "" {
			t.Errorf("%s: %s (%s), want %s", tt.row, got, d.Why, tt.want)
		}
	}
}

// TestDecideAlways checks invariants of every state: the file can be read by
// the client, a file is made only if it helps, and a client is never offered a
// file that it has.
func TestDecideAlways(t *testing.T) {
	all := vers(t, "2.0.0 3.0.0 3.1.0 3.2.0 4.0.0 4.1.0")
	subset := func(bits int) []Version {
		var out []Version
		for i, v := range all {
			if bits>>i&1 == 1 {
				out = append(out, v)
			}
		}
		return out
	}
	for _, request := range vers(t, "2.9.0 3.0.0 3.1.0 3.5.0 4.5.0") {
		for bits := range 1 << 12 {
			for _, exceeds := range append([]Version{{}}, all...) {
				s := State{Held: subset(bits & 63), Producible: subset(bits >> 6), Exceeds: exceeds, Upgrade: bits&1 == 1, AllowsRetry: bits&2 == 2}
				d := Decide(request, s)
				if d.Action == Send && (!CanRead(request, d.Version) || d.Version.Compare(exceeds) <= 0) {
					t.Fatalf("Decide(%s, %+v): %+v, want to send only a version that the client can read and that is above its own", request, s, d)
				}
				if !d.Make.IsZero() && (!CanRead(request, d.Make) || d.Make.Compare(exceeds) <= 0 || d.Make.Compare(d.Version) <= 0) {
					t.Fatalf("Decide(%s, %+v): %+v, want to make only a readable version above that of the client and above the sent one", request, s, d)
				}
				if (d.Action == ComeAgain || d.Action == Wait) && d.Make.IsZero() || d.Action == NotModified && exceeds.IsZero() {
					t.Fatalf("Decide(%s, %+v): %+v, want a version to make behind every delay, and NotModified only for a client with a file", request, s, d)
				}
				if d.Action == NotFound && !exceeds.IsZero() && request.Compare(MinVersion) >= 0 {
					t.Fatalf("Decide(%s, %+v): %+v, want NotModified: nothing is newer than the client's version", request, s, d)
				}
				// Making what was promised ends it: with a file and no more work.
				if !d.Make.IsZero() {
					s.Held = append(s.Held, d.Make)
					if again := Decide(request, s); again.Action != Send || !again.Make.IsZero() {
						t.Fatalf("%s %+v: %+v, then %+v; want the file sent and nothing made", request, s, d, again)
					}
				}
			}
		}
	}
}
