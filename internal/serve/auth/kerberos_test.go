package auth

import (
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/spnego"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

const testRealm = "UNIT.TEST"

// forge makes tickets as a KDC and a client would.
type forge struct {
	cname     []string
	crealm    string
	service   []string
	start     time.Duration // from now
	life      time.Duration
	made      time.Duration // of the proof, from now
	badFlag   bool
	mutual    bool
	proof     []string // another name in the proof
	proofIn   string   // another realm in the proof
	kt        *keytab.Keytab
	mechs     []gssapi.OIDName
	transited bool   // the KDC checked the realms on the way
	cksum     []byte // of the proof, of type 0x8003
	response  bool   // as the second leg of a negotiation
	bare      bool   // without a wrapper
}

func testKeytab(t testing.TB, password string, names ...string) *keytab.Keytab {
	t.Helper()
	kt := keytab.New()
	for _, n := range names {
		if err := kt.AddEntry(n, testRealm, password, time.Now(), 1, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
			t.Fatal(err)
		}
	}
	return kt
}

func writeKeytab(t testing.TB, kt *keytab.Keytab, name string) string {
	t.Helper()
	b, err := kt.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if name == "" {
		name = filepath.Join(t.TempDir(), "http.keytab")
	}
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// token returns the token and the key that is in the ticket.
func (f forge) token(t testing.TB, c *clock) ([]byte, types.EncryptionKey, types.Authenticator) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if f.life == 0 {
		f.life = time.Hour
	}
	if f.crealm == "" {
		f.crealm = testRealm
	}
	if f.service == nil {
		f.service = []string{"HTTP", "sym.unit.test"}
	}
	if f.mechs == nil {
		f.mechs = []gssapi.OIDName{gssapi.OIDKRB5}
	}
	fl := types.NewKrbFlags()
	if f.badFlag {
		types.SetFlag(&fl, flags.Invalid)
	}
	if f.transited {
		types.SetFlag(&fl, flags.TransitedPolicyChecked)
	}
	who := types.PrincipalName{NameType: nametype.KRB_NT_PRINCIPAL, NameString: f.cname}
	start := c.now().Add(f.start)
	tkt, key, err := messages.NewTicket(who, f.crealm, types.PrincipalName{NameType: nametype.KRB_NT_PRINCIPAL, NameString: f.service},
		testRealm, fl, f.kt, etypeID.AES256_CTS_HMAC_SHA1_96, 1, start, start, start.Add(f.life), start.Add(f.life))
	must(err)
	if f.proof != nil {
		who.NameString = f.proof
	}
	in := f.crealm
	if f.proofIn != "" {
		in = f.proofIn
	}
	proof, err := types.NewAuthenticator(in, who)
	must(err)
	proof.CTime = c.now().Add(f.made).Truncate(time.Second)
	proof.Cusec = rand.IntN(1e6)
	if f.cksum != nil {
		proof.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: f.cksum}
	}
	ap, err := messages.NewAPReq(tkt, key, proof)
	must(err)
	if f.mutual {
		types.SetFlag(&ap.APOptions, flags.APOptionMutualRequired)
	}
	b, err := ap.Marshal()
	must(err)
	oid, err := asn1.Marshal(asn1.ObjectIdentifier(gssapi.OIDKRB5.OID()))
	must(err)
	mech := asn1tools.AddASNAppTag(append(append(oid, 1, 0), b...), 0)
	if f.bare {
		return mech, key, proof
	}
	st := spnego.SPNEGOToken{Init: true, NegTokenInit: spnego.NegTokenInit{MechTokenBytes: mech}}
	for _, m := range f.mechs {
		st.NegTokenInit.MechTypes = append(st.NegTokenInit.MechTypes, m.OID())
	}
	if f.response {
		st = spnego.SPNEGOToken{Resp: true, NegTokenResp: spnego.NegTokenResp{ResponseToken: mech}}
	}
	b, err = st.Marshal()
	must(err)
	return b, key, proof
}

func negotiate(b []byte) *http.Request {
	return get("Authorization", "Negotiate "+base64.StdEncoding.EncodeToString(b))
}

func TestTickets(t *testing.T) {
	c := newClock()
	names := []string{"HTTP/sym.unit.test", "HTTP/other.unit.test", "host/sym.unit.test"}
	kt := testKeytab(t, "pw", names...)
	g := newGate(t, Config{
		Now: c.now, Started: c.now().Add(-time.Hour), Keytab: writeKeytab(t, kt, ""),
		Policy: PolicyConfig{Admit: []string{"*@" + testRealm}, Grants: []Grant{{Who: []string{"root@" + testRealm}, Admin: true}}},
	}, nil)
	if g.HTTP2() {
		t.Error("HTTP/2 beside Negotiate")
	}
	carol := []string{"carol"}
	for _, test := range []struct {
		name   string
		f      forge
		status int
		who    string
		reason string
	}{
		{"good", forge{}, 0, "carol@UNIT.TEST", ""},
		{"other host", forge{service: []string{"HTTP", "other.unit.test"}}, 0, "carol@UNIT.TEST", ""},
		{"service as client", forge{cname: []string{"HTTP", "x"}}, 0, "HTTP/x@UNIT.TEST", ""},
		{"without a wrapper", forge{bare: true}, 0, "carol@UNIT.TEST", ""},
		{"second leg", forge{response: true}, 0, "carol@UNIT.TEST", ""},
		{"Microsoft's OID", forge{mechs: []gssapi.OIDName{gssapi.OIDMSLegacyKRB5, gssapi.OIDKRB5}}, 0, "carol@UNIT.TEST", ""},
		{"within the skew", forge{made: -4 * time.Minute}, 0, "carol@UNIT.TEST", ""},
		{"just expired", forge{start: -time.Hour, life: 58 * time.Minute}, 0, "carol@UNIT.TEST", ""},
		{"expired", forge{start: -time.Hour, life: 50 * time.Minute}, 401, "", "expired"},
		{"not yet", forge{start: time.Hour}, 401, "", "not valid yet"},
		{"flagged as invalid", forge{badFlag: true}, 401, "", "not valid yet"},
		{"client's clock behind", forge{made: -12 * time.Minute}, 401, "", "behind the server's"},
		{"client's clock ahead", forge{made: 12*time.Minute + time.Second}, 401, "", "ahead of the server's; at most 5m0s are allowed"},
		{"another name in the proof", forge{proof: []string{"root"}}, 401, "", "different principals"},
		{"another realm in the proof", forge{crealm: "EVIL.TEST", proofIn: testRealm, cname: []string{"root"}}, 401, "", "different principals"},
		{"a stranger", forge{crealm: "EVIL.TEST", transited: true}, 403, "carol@EVIL.TEST", "not authorized"},
		{"a stranger on an unchecked way", forge{crealm: "EVIL.TEST"}, 401, "", "did not check the transited realms"},
		{"a name that looks like two", forge{cname: []string{"root@UNIT.TEST"}, crealm: "EVIL.TEST", transited: true}, 401, "", "name"},
		{"a name with a slash", forge{cname: []string{"a/b"}}, 401, "", "name"},
		{"an empty name", forge{cname: []string{""}}, 401, "", "name"},
		{"for another service", forge{service: []string{"host", "sym.unit.test"}}, 401, "", "not for HTTP"},
		{"another key", forge{kt: testKeytab(t, "other", names...)}, 401, "", "does not decrypt"},
		{"no key", forge{service: []string{"HTTP", "else.unit.test"}, kt: testKeytab(t, "pw", "HTTP/else.unit.test")}, 401, "", "no key"},
		{"other way first", forge{mechs: []gssapi.OIDName{gssapi.OIDGSSIAKerb, gssapi.OIDKRB5}}, 401, "", "other mechanisms"},
		{"other way only", forge{mechs: []gssapi.OIDName{gssapi.OIDGSSIAKerb}}, 401, "", "NTLM"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.f.kt == nil {
				test.f.kt = kt
			}
			if test.f.cname == nil {
				test.f.cname = carol
			}
			b, _, _ := test.f.token(t, c)
			id, r, ch := g.Authenticate(negotiate(b), "")
			if test.status == 0 {
				if ch != nil {
					t.Fatalf("got %+v, want nil", ch)
				}
				if id.Name != test.who || id.Method != MethodNegotiate || !r.Admitted || r.Admin || (id.Reply == "") != test.f.bare {
					t.Errorf("id %+v, rights %+v; want %s by Negotiate, admitted, no administrator, bare %v", id, r, test.who, test.f.bare)
				}
				if _, _, ch := g.Authenticate(negotiate(b), ""); ch == nil || ch.Status != 401 || !strings.Contains(ch.Reason, "before") {
					t.Errorf("shown again: %+v", ch)
				}
				return
			}
			if ch == nil || ch.Status != test.status || !strings.Contains(ch.Reason, test.reason) || r.Admitted {
				t.Fatalf("got %+v, %+v, %v; want not nil, Status %v, Reason with %q, false", id, ch, r.Admitted, test.status, test.reason)
			}
			if test.status == 401 && !strings.HasPrefix(ch.Header[0], "Negotiate") || id.Name != test.who {
				t.Errorf("id %+v, challenge %+v; want the name %q, and a Negotiate challenge with status 401", id, ch, test.who)
			}
			if strings.Contains(test.reason, "server's") != strings.Contains(ch.Text, "clock") {
				t.Errorf("the client is told %q, want the word clock exactly where the server's is wrong", ch.Text)
			}
		})
	}
}

// TestRealms: which realms' clients are accepted.
func TestRealms(t *testing.T) {
	t.Parallel()
	c := newClock()
	kt := testKeytab(t, "pw", "HTTP/sym.unit.test")
	for _, test := range []struct {
		realms    []string
		crealm    string
		transited bool
		in        bool
	}{
		{nil, testRealm, false, true},
		{nil, "SUB.UNIT.TEST", false, false},
		{nil, "SUB.UNIT.TEST", true, true},
		{[]string{"SUB.UNIT.TEST"}, "SUB.UNIT.TEST", false, true},
		{[]string{"*.UNIT.TEST"}, "SUB.UNIT.TEST", false, true},
		{[]string{"*.UNIT.TEST"}, testRealm, false, true},
		{[]string{"*.UNIT.TEST"}, "EVIL.TEST", false, false},
		{[]string{"*.UNIT.TEST"}, "EVIL.TEST", true, false},
	} {
		g := newGate(t, Config{Now: c.now, Keytab: writeKeytab(t, kt, ""), Realms: test.realms}, nil)
		b, _, _ := forge{kt: kt, cname: []string{"carol"}, crealm: test.crealm, transited: test.transited, made: time.Second}.token(t, c)
		if _, _, ch := g.Authenticate(negotiate(b), ""); (ch == nil) != test.in {
			t.Errorf("realms %q, client realm %s, checked by the KDC %v: challenge %+v, want accepted %v", test.realms, test.crealm, test.transited, ch, test.in)
		}
	}
}

// TestProofsOlderThanTheServer: after a restart, or on a second server, a proof
// that was made earlier is not accepted again.
func TestProofsOlderThanTheServer(t *testing.T) {
	t.Parallel()
	c := newClock()
	kt := testKeytab(t, "pw", "HTTP/sym.unit.test")
	cfg := Config{Now: c.now, Keytab: writeKeytab(t, kt, "")}
	first := newGate(t, cfg, nil)
	c.add(time.Minute)
	b, _, _ := forge{kt: kt, cname: []string{"carol"}}.token(t, c)
	if _, _, ch := first.Authenticate(negotiate(b), ""); ch != nil {
		t.Fatalf("a fresh proof: %+v, want no challenge", ch)
	}
	c.add(time.Second)
	second := newGate(t, cfg, nil)
	if _, _, ch := second.Authenticate(negotiate(b), ""); ch == nil || ch.Status != 401 || !strings.Contains(ch.Reason, "before this server started") {
		t.Errorf("the same proof after a restart: %+v, want 401", ch)
	}
	c.add(time.Second)
	b, _, _ = forge{kt: kt, cname: []string{"carol"}}.token(t, c)
	if _, _, ch := second.Authenticate(negotiate(b), ""); ch != nil {
		t.Errorf("a proof made after the restart is refused: %+v, want nil", ch)
	}
}

// TestWeakKeys: every weak key is named, also beside strong ones.
func TestWeakKeys(t *testing.T) {
	t.Parallel()
	kt := testKeytab(t, "pw", "HTTP/sym.unit.test")
	b, err := kt.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, warning, err := parseKeytab(b, nil); err != nil || warning != "" {
		t.Errorf("a keytab with AES keys only: warning %q, error %v, want none", warning, err)
	}
	if err := kt.AddEntry("HTTP/sym.unit.test", testRealm, "pw", time.Now(), 1, etypeID.RC4_HMAC); err != nil {
		t.Fatal(err)
	}
	if b, err = kt.Marshal(); err != nil {
		t.Fatal(err)
	}
	if _, warning, err := parseKeytab(b, nil); err != nil || !strings.Contains(warning, "RC4 of HTTP/sym.unit.test@UNIT.TEST") {
		t.Errorf("a keytab with an RC4 key beside an AES key: warning %q, error %v, want the RC4 key named", warning, err)
	}
}

// TestMutual: a client that wants the server to prove itself gets its time
// back, locked with the ticket's key.
func TestMutual(t *testing.T) {
	c := newClock()
	kt := testKeytab(t, "pw", "HTTP/sym.unit.test")
	g := newGate(t, Config{Now: c.now, Keytab: writeKeytab(t, kt, "")}, nil)
	for _, bare := range []bool{false, true} {
		b, key, proof := forge{kt: kt, cname: []string{"carol"}, mutual: true, bare: bare}.token(t, c)
		id, _, ch := g.Authenticate(negotiate(b), "")
		if ch != nil {
			t.Fatalf(`Authenticate(""): %+v, want nil`, ch)
		}
		reply, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(id.Reply, "Negotiate "))
		if err != nil {
			t.Fatal(err)
		}
		if !bare {
			var st spnego.SPNEGOToken
			if err := st.Unmarshal(reply); err != nil || !st.Resp || st.NegTokenResp.State() != spnego.NegStateAcceptCompleted {
				t.Fatalf("Unmarshal: %+v, error %v; want Resp true, NegTokenResp.State() %v", st, err, spnego.NegStateAcceptCompleted)
			}
			reply = st.NegTokenResp.ResponseToken
		}
		var tok spnego.KRB5Token
		if err := tok.Unmarshal(reply); err != nil || !tok.IsAPRep() {
			t.Fatalf("Unmarshal: %+v, error %v; want tok.IsAPRep()", tok, err)
		}
		plain, err := crypto.DecryptEncPart(tok.APRep.EncPart, key, keyusage.AP_REP_ENCPART)
		if err != nil {
			t.Fatal(err)
		}
		var part messages.EncAPRepPart
		if err := part.Unmarshal(plain); err != nil || !part.CTime.Equal(proof.CTime) || part.Cusec != proof.Cusec {
			t.Errorf("%+v %v, want %v %d", part, err, proof.CTime, proof.Cusec)
		}
	}
}

// TestConnection: on one connection of HTTP/1 a ticket may count for the
// requests behind it, if that is switched on.
func TestConnection(t *testing.T) {
	c := newClock()
	kt := testKeytab(t, "pw", "HTTP/sym.unit.test")
	s := newStore()
	revoked := NewToken()
	for _, on := range []bool{true, false} {
		g := newGate(t, Config{Now: c.now, Keytab: writeKeytab(t, kt, ""), PerConnection: on}, s)
		conn := func() func(h ...string) *http.Request {
			ctx := g.ConnContext(t.Context(), nil)
			return func(h ...string) *http.Request { return get(h...).WithContext(ctx) }
		}
		first, other := conn(), conn()
		b, _, _ := forge{kt: kt, cname: []string{"carol"}}.token(t, c)
		in := func(r *http.Request) bool {
			id, rights, ch := g.Authenticate(r, "")
			return ch == nil && id.Name == "carol@UNIT.TEST" && rights.All && id.Reply == ""
		}
		if _, _, ch := g.Authenticate(first("Authorization", "Negotiate "+base64.StdEncoding.EncodeToString(b)), ""); ch != nil {
			t.Fatalf(`Authenticate(""): %+v, want nil`, ch)
		}
		if in(first()) != on || in(other()) || in(get()) {
			t.Fatalf("on=%v: want the client's own connection admitted only if on, and no other ever", on)
		}
		for _, h := range forwarded {
			if in(first(h, "x")) {
				t.Errorf("%s: let in by another's ticket", h)
			}
		}
		h2 := first()
		h2.ProtoMajor = 2
		if in(h2) {
			t.Error("let in on HTTP/2")
		}
		if _, _, ch := g.Authenticate(first(), NewToken()); ch == nil || ch.Status != 401 {
			t.Errorf("a path token is overruled by the connection: %+v, want 401", ch)
		}
		c.add(time.Hour + time.Second)
		if in(first()) {
			t.Error("let in after the end of the ticket")
		}
		c.add(-time.Hour)
		if in(first()) != on {
			t.Errorf("a later request of the connection is let in: %v, want %v", !on, on)
		}
		if _, _, ch := g.Authenticate(first("Authorization", "Bearer "+revoked), ""); ch == nil || in(first()) {
			t.Error("bad credentials do not end what the connection was worth")
		}
	}
}

func TestKeytabTrouble(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage")
	empty := filepath.Join(dir, "empty")
	short := filepath.Join(dir, "short")
	for name, text := range map[string]string{garbage: "no keytab at all", empty: "\x05\x02", short: "\x05\x02\x00\x00\x00\x04ab"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host := writeKeytab(t, testKeytab(t, "pw", "host/sym.unit.test"), "")
	for _, test := range []struct{ file, principal, want string }{
		{filepath.Join(dir, "missing"), "", "cannot read the keytab"},
		{garbage, "", "is not a keytab"},
		{empty, "", ""},
		{short, "", ""},
		{host, "", "no key of HTTP/name, only of host/sym.unit.test@UNIT.TEST"},
		{host, "svc-sym", "no key of svc-sym"},
	} {
		_, err := New(Config{Keytab: test.file, KeytabPrincipal: test.principal}, nil, nil)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.file) {
			t.Errorf("%s: New: error %v, want an error, one with %q, one with %q", test.file, err, test.want, test.file)
		}
	}
}

// TestKeytabPrincipal: the keys of a service account open the tickets of its
// HTTP names.
func TestKeytabPrincipal(t *testing.T) {
	c := newClock()
	account := testKeytab(t, "pw", "svc-sym")
	g := newGate(t, Config{Now: c.now, Keytab: writeKeytab(t, account, ""), KeytabPrincipal: "svc-sym"}, nil)
	// The KDC locks tickets for HTTP/sym.unit.test with the account's key.
	kt := testKeytab(t, "pw", "HTTP/sym.unit.test")
	kt.Entries[0].Key = account.Entries[0].Key
	b, _, _ := forge{kt: kt, cname: []string{"carol"}}.token(t, c)
	if id, _, ch := g.Authenticate(negotiate(b), ""); ch != nil || id.Name != "carol@UNIT.TEST" {
		t.Errorf(`Authenticate(""): %+v, %+v; want nil, Name "carol@UNIT.TEST"`, id, ch)
	}
}

func TestKeytabIsReadAgain(t *testing.T) {
	c := newClock()
	one, two := testKeytab(t, "one", "HTTP/sym.unit.test"), testKeytab(t, "two", "HTTP/sym.unit.test")
	name := writeKeytab(t, one, "")
	g := newGate(t, Config{Now: c.now, Keytab: name}, nil)
	in := func(kt *keytab.Keytab) bool {
		b, _, _ := forge{kt: kt, cname: []string{"carol"}}.token(t, c)
		_, _, ch := g.Authenticate(negotiate(b), "")
		return ch == nil
	}
	if !in(one) || in(two) {
		t.Fatal("at first the second key is taken or the first one is not, want only the first")
	}
	if err := os.WriteFile(name, []byte("half a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.tick()
	if !in(one) {
		t.Error("a bad keytab puts the good one out of force")
	}
	writeKeytab(t, two, name)
	g.tick()
	if in(one) || !in(two) {
		t.Error("the new keytab is not in force")
	}
}

// TestTortureTickets changes valid tokens in many ways: none may be accepted or
// crash the server.
func TestTortureTickets(t *testing.T) {
	n := 2000
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		n = 30000
	}
	c := newClock()
	kt := testKeytab(t, "pw", "HTTP/sym.unit.test")
	path := writeKeytab(t, kt, "")
	g, err := New(Config{Now: c.now, Keytab: path, TicketGroups: true}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	rng := rand.New(rand.NewPCG(symtest.Seed(t, 1), 2))
	var seeds [][]byte
	for _, f := range []forge{{}, {bare: true}, {response: true}, {mutual: true}} {
		f.kt, f.cname = kt, []string{"carol"}
		b, _, _ := f.token(t, c)
		seeds = append(seeds, b)
	}
	taken, refused := 0, 0
	for range n {
		b := mutate(rng, seeds[rng.IntN(len(seeds))])
		id, _, ch := g.Authenticate(negotiate(b), "")
		switch {
		case ch == nil && id.Name == "carol@UNIT.TEST":
			taken++ // the change was in a field that nobody reads, such as a flag
		case ch == nil || ch.Status != 401:
			t.Fatalf("ticket %x: id %+v, challenge %+v; want status 401, or carol@UNIT.TEST", b, id, ch)
		default:
			refused++
		}
	}
	if taken > len(seeds) {
		t.Errorf("%d mutated tokens were taken; each ticket may be taken once, want at most %v", taken, len(seeds))
	}
	t.Logf("%d refused, %d taken", refused, taken)
}

func mutate(rng *rand.Rand, b []byte) []byte {
	b = append([]byte(nil), b...)
	for range 1 + rng.IntN(4) {
		if len(b) < 2 {
			break
		}
		i := rng.IntN(len(b))
		if rng.IntN(2) == 0 {
			i = rng.IntN(min(len(b), 120)) // the structure is in front
		}
		switch rng.IntN(6) {
		case 0:
			b[i] ^= 1 << rng.IntN(8)
		case 1:
			b[i] = byte(rng.IntN(256))
		case 2:
			b = b[:i+1]
		case 3:
			b = append(b[:i], b[i+1:]...)
		case 4:
			b = append(b[:i+1], b[i:]...)
		case 5:
			b[i] = []byte{0, 0x7f, 0x80, 0x84, 0xff}[rng.IntN(5)]
		}
	}
	return b
}

func FuzzTicket(f *testing.F) {
	c := newClock()
	kt := testKeytab(f, "pw", "HTTP/sym.unit.test")
	for _, fo := range []forge{{}, {bare: true}, {response: true}, {crealm: "EVIL.TEST"}} {
		fo.kt, fo.cname = kt, []string{"carol"}
		b, _, _ := fo.token(f, c)
		f.Add(b)
	}
	g, err := New(Config{Now: c.now, Keytab: writeKeytab(f, testKeytab(f, "other", "HTTP/sym.unit.test"), "")}, nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if id, _, ch := g.Authenticate(negotiate(b), ""); ch == nil || ch.Status != 401 || !id.Anonymous() {
			t.Fatalf(`Authenticate(""): %+v, %+v; want not nil, Status 401, id.Anonymous()`, id, ch)
		}
	})
}

func FuzzKeytab(f *testing.F) {
	b, err := testKeytab(f, "pw", "HTTP/sym.unit.test", "host/x").Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("\x05\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if kt, _, err := parseKeytab(b, nil); err == nil && len(kt.Entries) == 0 {
			t.Fatal("no keys")
		}
	})
}

func TestReplaysAreForgotten(t *testing.T) {
	r := replays{keep: 10 * time.Minute}
	now := time.Unix(1e9, 0)
	for i := range 100 {
		var k [32]byte
		k[0] = byte(i)
		if r.add(k, "a", now) != replayNew || r.add(k, "a", now.Add(10*time.Minute-1)) != replaySeen {
			t.Fatalf(`%v, want r.add(k, "a", now) %v, r.add(k, "a", now.Add(10*time.Minute-1)) %v`, i, replayNew, replaySeen)
		}
		now = now.Add(7 * time.Minute)
		if n := len(r.cur) + len(r.old); n > 5 {
			t.Fatalf("%d are held, want at most 5", n)
		}
	}
	if r.add([32]byte{99}, "a", now.Add(time.Hour)) != replayNew {
		t.Error("remembered for ever")
	}
}

// TestReplaysPerPrincipal: a principal that fills its share of the memory does
// not affect others.
func TestReplaysPerPrincipal(t *testing.T) {
	t.Parallel()
	r := replays{keep: 10 * time.Minute}
	now := time.Unix(1e9, 0)
	proof := func(i int) (k [32]byte) {
		binary.LittleEndian.PutUint32(k[:], uint32(i))
		return k
	}
	for i := range maxReplaysEach {
		if got := r.add(proof(i), "mallory@X", now); got != replayNew {
			t.Fatalf("proof %d: %v, want it to be new", i, got)
		}
	}
	if got := r.add(proof(maxReplaysEach), "mallory@X", now); got != replayFull {
		t.Errorf("a proof of mallory beyond the bound: %v, want full", got)
	}
	if got := r.add(proof(maxReplaysEach), "alice@X", now); got != replayNew {
		t.Errorf("a proof of alice: %v, want it to be new", got)
	}
}

// answer serves what a gate says.
func answer(g *Gate) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, _, ch := g.Authenticate(r, "")
		if ch != nil {
			for _, v := range ch.Header {
				w.Header().Add("WWW-Authenticate", v)
			}
			http.Error(w, ch.Text, ch.Status)
			return
		}
		if id.Reply != "" {
			w.Header().Set("WWW-Authenticate", id.Reply)
		}
		fmt.Fprintf(w, "hello %s\n", id.Name)
	})
}

func listen(t *testing.T, g *Gate) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(answer(g))
	srv.Config.ConnContext = g.ConnContext
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}
