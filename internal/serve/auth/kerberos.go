package auth

import (
	"bytes"
	"context"
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

	"github.com/symdepot/symdepot/internal/base/glob"
)

// The library parses and decrypts tickets. This file verifies them, because the
// service half of the library trusts the realm that the client states outside the
// ticket, fails on group records of recent KDCs, accepts tickets for any service
// in the keytab, and does not support mutual authentication.

// Constant replies (RFC 4178 section 4.2.2), in base64.
const (
	// replyDone: accept-completed, Kerberos.
	replyDone = "oRQwEqADCgEAoQsGCSqGSIb3EgECAg=="
	// replyMore: accept-incomplete, continue with Kerberos.
	replyMore = "oRQwEqADCgEBoQsGCSqGSIb3EgECAg=="
)

// krb5 verifies tickets with a keytab.
type krb5 struct {
	keys    *reloaded[keytab.Keytab]
	service *types.PrincipalName // principal whose keys decrypt tickets; nil: the HTTP principal in the ticket
	skew    time.Duration
	groups  bool
	realms  []string // patterns of the client realms that are accepted; see Config.Realms
	binding bool     // see Config.RequireChannelBinding
	ends    *endpoints
	now     func() time.Time
	started time.Time // earlier authenticators may have been used already
	seen    replays
	first   func(ctx context.Context, key [16]byte, keep time.Duration) (bool, error) // see Config.FirstUse
}

// openKeytab loads a keytab. Errors name it.
func openKeytab(cfg *Config, ends *endpoints, log *slog.Logger) (negotiator, error) {
	k := &krb5{
		skew: cfg.MaxClockSkew, groups: cfg.TicketGroups, realms: cfg.Realms,
		binding: cfg.RequireChannelBinding, ends: ends, now: cfg.Now, started: cfg.Started, first: cfg.FirstUse,
	}
	if k.started.IsZero() {
		k.started = cfg.Now()
	}
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
			err = fmt.Errorf("cannot read the keytab: %w", err)
		}
		return nil, err
	}
	if fi, err := os.Stat(path); err == nil && runtime.GOOS != "windows" && fi.Mode().Perm()&0o007 != 0 {
		log.Warn("keytab: every user of this machine can read the keys and so impersonate every client", "file", path, "mode",
			fi.Mode().Perm().String())
	}
	return k, nil
}

func (k *krb5) poll() { k.keys.poll() }

// contained runs f, which passes untrusted bytes to the library, and recovers
// from panics of its parsers.
func contained(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("cannot be read")
		}
	}()
	return f()
}

// weakKinds are the kinds of keys that are weak but that the library supports.
var weakKinds = map[int32]string{etypeID.RC4_HMAC: "RC4", etypeID.DES3_CBC_SHA1_KD: "triple DES"}

// parseKeytab parses a keytab and checks that it has a usable key of service, or of
// an HTTP principal if that is nil. The warning, if any, is for the operator.
func parseKeytab(b []byte, service *types.PrincipalName) (kt *keytab.Keytab, warning string, err error) {
	kt = keytab.New()
	if err := contained(func() error { return kt.Unmarshal(b) }); err != nil {
		return nil, "", fmt.Errorf("is not a keytab: %w", err)
	}
	if len(kt.Entries) == 0 {
		return nil, "", errors.New("contains no keys")
	}
	var names []string
	fit, usable := false, false
	var weak []string
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
			if kind := weakKinds[e.Key.KeyType]; kind != "" {
				weak = append(weak, kind+" of "+e.Principal.String())
			}
		}
	}
	slices.Sort(names)
	all := strings.Join(slices.Compact(names), ", ")
	switch {
	case !fit && service == nil:
		return nil, "", fmt.Errorf("contains no key of HTTP/name, only of %s", all)
	case !fit:
		return nil, "", fmt.Errorf("contains no key of %s, only of %s", service.PrincipalNameString(), all)
	case !usable:
		return nil, "", errors.New("its keys have unknown encryption types; use AES keys")
	case len(weak) > 0:
		slices.Sort(weak)
		warning = "weak keys are accepted: " + strings.Join(slices.Compact(weak), ", ") +
			"; give the account AES keys only and write the keytab again without these"
	}
	return kt, warning, nil
}

// accept verifies a Negotiate token.
func (k *krb5) accept(token []byte, remote string, overTLS bool) (t ticket, reply string, err error) {
	inside := contained(func() error {
		t, reply, err = k.checkTicket(token, remote, overTLS)
		return nil
	})
	if inside != nil {
		return ticket{}, "", fmt.Errorf("the ticket %w", inside)
	}
	return t, reply, err
}

func (k *krb5) checkTicket(token []byte, remote string, overTLS bool) (ticket, string, error) {
	mech, bare, reply, err := unwrap(token)
	if err != nil {
		return ticket{}, reply, err
	}
	var tok spnego.KRB5Token
	if err := tok.Unmarshal(mech); err != nil || !tok.IsAPReq() {
		return ticket{}, "", errors.New("the Negotiate token contains no Kerberos ticket")
	}
	ap := &tok.APReq
	if err := k.open(ap, remote); err != nil {
		return ticket{}, "", err
	}
	if err := k.checkRealm(ap); err != nil {
		return ticket{}, "", err
	}
	if err := k.checkBinding(ap, overTLS); err != nil {
		return ticket{}, "", err
	}
	part := &ap.Ticket.DecryptedEncPart
	name, err := principalName(part)
	if err != nil {
		return ticket{}, "", err
	}
	switch k.use(sha256.Sum256(ap.EncryptedAuthenticator.Cipher), name) {
	case replaySeen:
		return ticket{}, "", errors.New("the authenticator was used before: each request needs a new one")
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

// use records the use of an authenticator, given by its hash, here and for the
// other servers. If it cannot be recorded, the ticket is not accepted now.
func (k *krb5) use(sum [32]byte, principal string) replay {
	r := k.seen.add(sum, principal, k.now())
	if r != replayNew || k.first == nil {
		return r
	}
	ctx, cancel := context.WithTimeout(context.Background(), tokenQuery)
	defer cancel()
	switch is, err := k.first(ctx, [16]byte(sum[:16]), 2*k.skew); {
	case err != nil:
		return replayFull
	case !is:
		return replaySeen
	}
	return replayNew
}

// answer returns the reply for an accepted client, wrapped like its token.
func (k *krb5) answer(ap *messages.APReq, bare bool) (string, error) {
	if !types.IsFlagSet(&ap.APOptions, flags.APOptionMutualRequired) {
		if bare {
			return "", nil
		}
		return replyDone, nil
	}
	b, err := replyTo(ap)
	if err == nil && !bare {
		resp := spnego.NegTokenResp{SupportedMech: gssapi.OIDKRB5.OID(), ResponseToken: b}
		b, err = resp.Marshal()
	}
	return base64.StdEncoding.EncodeToString(b), err
}

// unwrap returns the Kerberos part of a token; bare says that it had no SPNEGO
// wrapper. With a reply, the client may continue the negotiation.
func unwrap(token []byte) (mech []byte, bare bool, reply string, err error) {
	var st spnego.SPNEGOToken
	if err := st.Unmarshal(token); err != nil {
		if len(token) > 0 && token[0] == 0x60 {
			return token, true, "", nil // some clients send Kerberos without SPNEGO
		}
		return nil, false, "", errors.New("the token is not a Negotiate token")
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
			return nil, false, replyMore, errors.New("the client prefers other mechanisms; the reply requests Kerberos")
		}
		mech = st.NegTokenInit.MechTokenBytes
	}
	if bytes.HasPrefix(mech, []byte("NTLMSSP\x00")) {
		return nil, false, "", errors.New(whyNTLM)
	}
	return mech, false, "", nil
}

// open decrypts a ticket and the authenticator, which proves that the client has
// the ticket's key, and checks names, times and addresses (RFC 4120 section 3.2.3).
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
			return fmt.Errorf("the keytab has no key for %.100q in realm %.100q, version %d, kind %d: "+
				"it may be older than the account's last password change",
				keys.PrincipalNameString(), ap.Ticket.Realm, ap.Ticket.EncPart.KVNO, ap.Ticket.EncPart.EType)
		}
		return errors.New("the key in the keytab does not decrypt the ticket")
	}
	part := &ap.Ticket.DecryptedEncPart
	if err := ap.DecryptAuthenticator(part.Key); err != nil {
		return errors.New("the ticket's key does not decrypt the authenticator")
	}
	proof := &ap.Authenticator
	if !proof.CName.Equal(part.CName) || proof.CRealm != part.CRealm {
		return errors.New("the ticket and the authenticator name different principals")
	}
	now := k.now()
	made := proof.CTime.Add(time.Duration(proof.Cusec) * time.Microsecond)
	if d := made.Sub(now); d > k.skew || -d > k.skew {
		return &skewError{d, k.skew}
	}
	if made.Before(k.started) {
		return fmt.Errorf("the authenticator was made %s before this server started, so it may have been used already; the "+
			"client must send a new one", k.started.Sub(made).Round(time.Second))
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
			return errors.New("the ticket is not valid for the client's address")
		}
	}
	return nil
}

// principalName returns the principal of a ticket. It rejects names that could
// be mistaken for those of a different realm.
func principalName(part *messages.EncTicketPart) (string, error) {
	odd := func(s string) bool {
		return s == "" || strings.ContainsAny(s, `/@\`) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
	}
	parts := part.CName.NameString
	if len(parts) == 0 || slices.ContainsFunc(parts, odd) || part.CRealm == "" || strings.Contains(part.CRealm, "@") ||
		checkName(part.CRealm) != nil {
		return "", errors.New("the client's name in the ticket has characters that are not accepted")
	}
	name := strings.Join(parts, "/") + "@" + part.CRealm
	return name, checkName(name)
}

// replyTo returns an AP-REP (RFC 4120 section 3.2.4), which proves to the client that
// the server could decrypt its ticket: the client's time, encrypted with the
// ticket's key.
func replyTo(ap *messages.APReq) ([]byte, error) {
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

// sids returns the Windows groups in a ticket. KDCs other than Windows send none.
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

// replays is the replay cache (RFC 4120 section 3.2.3). It remembers
// authenticators as long as their times are accepted: at least keep and at most
// twice as long. One principal may use an eighth of it.
type replays struct {
	keep time.Duration

	mu       sync.Mutex
	cur, old map[[16]byte]struct{}
	by       map[[16]byte]int // entries of cur by principal
	since    time.Time        // start of the use of cur
}

const (
	// maxReplays limits each half of the cache, in authenticators.
	maxReplays = 2 << 20
	// maxReplaysEach limits the entries of one principal in each half: 400
	// requests a second with the default skew.
	maxReplaysEach = maxReplays / 8
)

type replay int

const (
	replayNew replay = iota
	replaySeen
	replayFull
)

// add records the authenticator of a principal, given by its hash.
func (r *replays) add(sum [32]byte, principal string, now time.Time) replay {
	key, who := [16]byte(sum[:16]), hash16(principal)
	r.mu.Lock()
	defer r.mu.Unlock()
	if age := now.Sub(r.since); r.cur == nil || age > r.keep {
		r.old = r.cur
		if age > 2*r.keep {
			r.old = nil
		}
		r.cur, r.by, r.since = map[[16]byte]struct{}{}, map[[16]byte]int{}, now
	}
	if _, ok := r.cur[key]; ok {
		return replaySeen
	}
	if _, ok := r.old[key]; ok {
		return replaySeen
	}
	if len(r.cur) >= maxReplays || r.by[who] >= maxReplaysEach {
		return replayFull
	}
	r.cur[key] = struct{}{}
	r.by[who]++
	return replayNew
}

// checkBinding compares the channel binding of a proof with this server's
// certificates if this server terminates TLS.
func (k *krb5) checkBinding(ap *messages.APReq, overTLS bool) error {
	h, sent := sentBinding(&ap.Authenticator)
	switch {
	case sent && overTLS:
		ours, known := k.ends.has(h)
		if !ours && (known || k.binding) {
			return errBinding
		}
		return nil
	case k.binding:
		return errNoBinding
	}
	return nil
}

// checkRealm decides whether clients of a ticket's realm are accepted. Accepted
// are the service's own realm and the realms that the operator lists. Without a
// list, other realms are accepted if the KDC has checked the transited realms
// (RFC 4120 section 2.7).
func (k *krb5) checkRealm(ap *messages.APReq) error {
	part := &ap.Ticket.DecryptedEncPart
	switch {
	case part.CRealm == ap.Ticket.Realm:
		return nil
	case len(k.realms) > 0:
		if slices.ContainsFunc(k.realms, func(realm string) bool { return glob.MatchAccount(realm, part.CRealm) }) {
			return nil
		}
	case types.IsFlagSet(&part.Flags, flags.TransitedPolicyChecked):
		return nil
	default:
		return fmt.Errorf("the ticket comes from realm %.100q, and its KDC did not check the transited realms; to accept "+
			"it, add the realm to auth.negotiate.realms", part.CRealm)
	}
	return fmt.Errorf("the ticket comes from realm %.100q, which auth.negotiate.realms does not list", part.CRealm)
}
