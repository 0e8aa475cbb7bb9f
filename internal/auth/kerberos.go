package auth

import (
	"bytes"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/spnego"
	"github.com/jcmturner/gokrb5/v8/types"
)

// The library reads tickets and opens them. What they prove is judged here and
// not by its own service half: that one believes the realm that the client
// states beside the ticket, reads group records that it does not understand in
// the tickets of recent KDCs, takes tickets for any service of the keytab, and
// answers no client that wants the server to prove itself too.

// Replies that are always the same, in base64.
const (
	// replyDone: accepted, by Kerberos.
	replyDone = "oRQwEqADCgEAoQsGCSqGSIb3EgECAg=="
	// replyMore: go on, with Kerberos.
	replyMore = "oRQwEqADCgEBoQsGCSqGSIb3EgECAg=="
)

// krb5 judges tickets by a keytab.
type krb5 struct {
	keys    *reloaded[keytab.Keytab]
	service *types.PrincipalName // whose keys to use; nil: those of the ticket's HTTP/…
	skew    time.Duration
	groups  bool
	now     func() time.Time
	seen    replays
}

// openKeytab begins to use a keytab. The error names it.
func openKeytab(cfg *Config, log *slog.Logger) (negotiator, error) {
	k := &krb5{skew: cfg.MaxClockSkew, groups: cfg.TicketGroups, now: cfg.Now}
	if k.skew == 0 {
		k.skew = 5 * time.Minute
	}
	k.seen.keep = 2 * k.skew
	if cfg.KeytabPrincipal != "" {
		name, _ := types.ParseSPNString(cfg.KeytabPrincipal)
		k.service = &name
	}
	path := cfg.Keytab
	var err error
	k.keys, err = newReloaded(log, []string{path}, func(b [][]byte) (*keytab.Keytab, error) {
		kt, warning, err := parseKeytab(b[0], k.service)
		if err != nil {
			return nil, fmt.Errorf("keytab %s: %w", path, err)
		}
		if warning != "" {
			log.Warn("keytab: "+warning, "file", path)
		}
		return kt, nil
	})
	if err != nil {
		if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("the keytab cannot be read: %w", err)
		}
		return nil, err
	}
	if fi, err := os.Stat(path); err == nil && runtime.GOOS != "windows" && fi.Mode().Perm()&0o007 != 0 {
		log.Warn("keytab: everybody on this machine can read the keys; whoever does can be anybody here", "file", path, "mode", fi.Mode().Perm().String())
	}
	return k, nil
}

func (k *krb5) poll() { k.keys.poll() }

// contained runs f, which hands untrusted bytes to the library. Its parsers
// are known to panic on some.
func contained(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("cannot be read")
		}
	}()
	return f()
}

// parseKeytab reads a keytab and looks whether it is of any use for service, or
// for HTTP if that is nil. The warning, if any, is for the operator.
func parseKeytab(b []byte, service *types.PrincipalName) (kt *keytab.Keytab, warning string, err error) {
	kt = keytab.New()
	if err := contained(func() error { return kt.Unmarshal(b) }); err != nil {
		return nil, "", fmt.Errorf("is no keytab: %w", err)
	}
	if len(kt.Entries) == 0 {
		return nil, "", errors.New("holds no keys")
	}
	var names []string
	fit, usable, strong := false, false, false
	for _, e := range kt.Entries {
		names = append(names, e.Principal.String())
		if service == nil {
			if len(e.Principal.Components) < 2 || !strings.EqualFold(e.Principal.Components[0], "HTTP") {
				continue
			}
		} else if !slices.Equal(e.Principal.Components, service.NameString) {
			continue
		}
		fit = true
		if _, err := crypto.GetEtype(e.Key.KeyType); err == nil {
			usable = true
			strong = strong || e.Key.KeyType != etypeID.RC4_HMAC && e.Key.KeyType != etypeID.DES3_CBC_SHA1_KD
		}
	}
	slices.Sort(names)
	all := strings.Join(slices.Compact(names), ", ")
	switch {
	case !fit && service == nil:
		return nil, "", fmt.Errorf("holds no key of HTTP/name, only of %s", all)
	case !fit:
		return nil, "", fmt.Errorf("holds no key of %s, only of %s", service.PrincipalNameString(), all)
	case !usable:
		return nil, "", errors.New("its keys are of no kind that is known; AES keys are best")
	case !strong:
		warning = "its keys are RC4 or DES, which can be broken; let the account have AES keys"
	}
	return kt, warning, nil
}

// accept judges a token of Negotiate.
func (k *krb5) accept(token []byte, remote string) (t ticket, reply string, err error) {
	inside := contained(func() error {
		t, reply, err = k.judge(token, remote)
		return nil
	})
	if inside != nil {
		return ticket{}, "", fmt.Errorf("the ticket %w", inside)
	}
	return t, reply, err
}

func (k *krb5) judge(token []byte, remote string) (ticket, string, error) {
	mech, bare, reply, err := unwrap(token)
	if err != nil {
		return ticket{}, reply, err
	}
	var tok spnego.KRB5Token
	if err := tok.Unmarshal(mech); err != nil || !tok.IsAPReq() {
		return ticket{}, "", errors.New("the token holds no Kerberos ticket")
	}
	ap := &tok.APReq
	if err := k.open(ap, remote); err != nil {
		return ticket{}, "", err
	}
	part := &ap.Ticket.DecryptedEncPart
	name, err := principalName(part)
	if err != nil {
		return ticket{}, "", err
	}
	switch k.seen.add(sha256.Sum256(ap.EncryptedAuthenticator.Cipher), k.now()) {
	case replaySeen:
		return ticket{}, "", errors.New("the ticket was shown before: each request needs a fresh proof")
	case replayFull:
		return ticket{}, "", errBusy
	}
	if reply, err = k.answer(ap, bare); err != nil {
		return ticket{}, "", err
	}
	t := ticket{principal: name, until: part.EndTime}
	if k.groups {
		t.sids = k.sids(&ap.Ticket)
	}
	return t, reply, nil
}

// answer is what an accepted client gets, in the wrapper that it used.
func (k *krb5) answer(ap *messages.APReq, bare bool) (string, error) {
	if !types.IsFlagSet(&ap.APOptions, flags.APOptionMutualRequired) {
		if bare {
			return "", nil
		}
		return replyDone, nil
	}
	b, err := prove(ap)
	if err == nil && !bare {
		resp := spnego.NegTokenResp{SupportedMech: gssapi.OIDKRB5.OID(), ResponseToken: b}
		b, err = resp.Marshal()
	}
	return base64.StdEncoding.EncodeToString(b), err
}

// unwrap takes the Kerberos part out of a token; bare says that there was
// nothing around it. With a reply, the client may go on.
func unwrap(token []byte) (mech []byte, bare bool, reply string, err error) {
	var st spnego.SPNEGOToken
	if err := st.Unmarshal(token); err != nil {
		if len(token) > 0 && token[0] == 0x60 {
			return token, true, "", nil // Kerberos without a wrapper, as some clients send it
		}
		return nil, false, "", errors.New("the token is none of Negotiate")
	}
	isKerberos := func(oid interface{ String() string }) bool {
		s := oid.String()
		return s == gssapi.OIDKRB5.OID().String() || s == gssapi.OIDMSLegacyKRB5.OID().String()
	}
	if st.Resp {
		mech = st.NegTokenResp.ResponseToken
	} else {
		known := -1
		for i, oid := range st.NegTokenInit.MechTypes {
			if isKerberos(oid) {
				known = i
				break
			}
		}
		switch {
		case known < 0:
			return nil, false, "", errors.New(whyNTLM)
		case known > 0 || len(st.NegTokenInit.MechTokenBytes) == 0:
			return nil, false, replyMore, errors.New("the client asks which way to go: Kerberos")
		}
		mech = st.NegTokenInit.MechTokenBytes
	}
	if bytes.HasPrefix(mech, []byte("NTLMSSP\x00")) {
		return nil, false, "", errors.New(whyNTLM)
	}
	return mech, false, "", nil
}

// open opens a ticket and the proof that the client has its key, and looks at
// the times.
func (k *krb5) open(ap *messages.APReq, remote string) error {
	name := ap.Ticket.SName
	if len(name.NameString) == 0 {
		return errors.New("the ticket names no service")
	}
	if k.service == nil && !strings.EqualFold(name.NameString[0], "HTTP") {
		return fmt.Errorf("the ticket is for %.100q, not for HTTP", name.PrincipalNameString())
	}
	keys := k.service
	if keys == nil {
		keys = &name
	}
	if err := ap.Ticket.DecryptEncPart(k.keys.get(), keys); err != nil {
		if e, ok := errors.AsType[messages.KRBError](err); ok && e.ErrorCode == errorcode.KRB_AP_ERR_NOKEY {
			return fmt.Errorf("the keytab has no key for %.100q in realm %.100q, version %d, kind %d: it may be older than the account's last change of password",
				keys.PrincipalNameString(), ap.Ticket.Realm, ap.Ticket.EncPart.KVNO, ap.Ticket.EncPart.EType)
		}
		return errors.New("the ticket does not open with the keytab's key")
	}
	part := &ap.Ticket.DecryptedEncPart
	if err := ap.DecryptAuthenticator(part.Key); err != nil {
		return errors.New("the proof beside the ticket does not open with the ticket's key")
	}
	proof := &ap.Authenticator
	if !proof.CName.Equal(part.CName) || proof.CRealm != part.CRealm {
		return errors.New("the ticket and the proof beside it name different people")
	}
	now := k.now()
	made := proof.CTime.Add(time.Duration(proof.Cusec) * time.Microsecond)
	if d := made.Sub(now); d > k.skew || -d > k.skew {
		return &skewError{d, k.skew}
	}
	start := part.StartTime
	if start.IsZero() {
		start = part.AuthTime
	}
	switch {
	case types.IsFlagSet(&part.Flags, flags.Invalid) || start.Sub(now) > k.skew:
		return errors.New("the ticket is not valid yet")
	case now.Sub(part.EndTime) > k.skew:
		return errors.New("the ticket has expired")
	}
	if len(part.CAddr) > 0 {
		addr, err := types.GetHostAddress(remote)
		if err != nil || !types.HostAddressesContains(part.CAddr, addr) {
			return errors.New("the ticket is for other addresses than the client's")
		}
	}
	return nil
}

// principalName prints whom a ticket is for. Names that would look like those
// of somebody else's realm are refused.
func principalName(part *messages.EncTicketPart) (string, error) {
	odd := func(s string) bool {
		return s == "" || strings.ContainsAny(s, `/@\`) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
	}
	parts := part.CName.NameString
	if len(parts) == 0 || slices.ContainsFunc(parts, odd) || part.CRealm == "" || strings.Contains(part.CRealm, "@") || checkName(part.CRealm) != nil {
		return "", errors.New("the ticket's name is none that is taken")
	}
	name := strings.Join(parts, "/") + "@" + part.CRealm
	return name, checkName(name)
}

// prove answers a client that wants to know that the server could open its
// ticket: with the time that the client sent, locked with the ticket's key.
func prove(ap *messages.APReq) ([]byte, error) {
	inner, err := asn1.Marshal(messages.EncAPRepPart{CTime: ap.Authenticator.CTime.UTC(), Cusec: ap.Authenticator.Cusec})
	if err != nil {
		return nil, err
	}
	key := ap.Ticket.DecryptedEncPart.Key
	locked, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(inner, asnAppTag.EncAPRepPart), key, keyusage.AP_REP_ENCPART, 0)
	if err != nil {
		return nil, err
	}
	rep, err := asn1.Marshal(messages.APRep{PVNO: 5, MsgType: msgtype.KRB_AP_REP, EncPart: locked})
	if err != nil {
		return nil, err
	}
	mech, err := asn1.Marshal(asn1.ObjectIdentifier(gssapi.OIDKRB5.OID()))
	if err != nil {
		return nil, err
	}
	mech = append(mech, 2, 0)
	mech = append(mech, asn1tools.AddASNAppTag(rep, asnAppTag.APREP)...)
	return asn1tools.AddASNAppTag(mech, 0), nil
}

// sids returns the Windows groups that a ticket tells of. KDCs other than
// Windows send records without groups, or none.
func (k *krb5) sids(t *messages.Ticket) []string {
	var list []string
	err := contained(func() error {
		keys := k.service
		if keys == nil {
			keys = &t.SName
		}
		has, pac, err := t.GetPACType(k.keys.get(), keys, stdlog.New(io.Discard, "", 0))
		if err == nil && has && pac.KerbValidationInfo != nil {
			list = pac.KerbValidationInfo.GetGroupMembershipSIDs()
		}
		return err
	})
	if err != nil {
		return nil
	}
	return list
}

// replays remembers the proofs that were shown, for as long as they would be
// taken again: at least keep, at most twice that.
type replays struct {
	keep time.Duration

	mu       sync.Mutex
	cur, old map[[16]byte]struct{}
	since    time.Time // cur is used since then
}

// maxReplays bounds each half of the memory: as many as an hour of 500
// requests a second.
const maxReplays = 2 << 20

type replay int

const (
	replayNew replay = iota
	replaySeen
	replayFull
)

func (r *replays) add(sum [32]byte, now time.Time) replay {
	key := [16]byte(sum[:16])
	r.mu.Lock()
	defer r.mu.Unlock()
	if age := now.Sub(r.since); r.cur == nil || age > r.keep {
		r.old = r.cur
		if age > 2*r.keep {
			r.old = nil
		}
		r.cur, r.since = map[[16]byte]struct{}{}, now
	}
	if _, ok := r.cur[key]; ok {
		return replaySeen
	}
	if _, ok := r.old[key]; ok {
		return replaySeen
	}
	if len(r.cur) >= maxReplays {
		return replayFull
	}
	r.cur[key] = struct{}{}
	return replayNew
}
