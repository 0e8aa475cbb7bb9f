package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/account"
	"github.com/symdepot/symdepot/internal/base/address"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/remote/sympath"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/serve/auth"
)

// Case says what is examined.
type Case struct {
	ConfigFile string // empty: there is none
	Getenv     func(string) string
	DepotDir   string // of the command line; empty: the configured one
	Blobs      string // likewise
	Listen     string // address at which the server was started; empty: the configured one
	Version    string // of this program
}

// Patient is what was examined, for other reports.
type Patient struct {
	Config *config.Config // nil if the configuration cannot be used
	Depot  home.Inspection
	Server Server
}

// examiner collects findings.
type examiner struct {
	Case
	Patient
	list []Finding
}

func (e *examiner) add(area string, s State, text, do string) {
	e.list = append(e.list, Finding{area, s, text, do})
}

// Examine looks at everything, and returns the findings in the order in which they
// are to be read.
func Examine(ctx context.Context, c Case) ([]Finding, Patient) {
	e := &examiner{Case: c}
	if !e.configuration() {
		e.add("depot", Warning, "nothing else was examined, because the configuration says where it is",
			"correct the configuration and run symdepot doctor again")
		return e.list, e.Patient
	}
	e.depot(ctx)
	e.certificates()
	e.transcoders(ctx)
	e.server(ctx)
	e.upstreams(ctx)
	return e.list, e.Patient
}

// configuration reports whether the configuration can be used.
func (e *examiner) configuration() bool {
	conf, err := config.LoadForCheck(e.ConfigFile, e.Getenv)
	if err != nil {
		for _, err := range split(err) {
			e.add("configuration", Fault, err.Error(), "correct it; symdepot config print shows every key")
		}
		return false
	}
	if e.DepotDir != "" {
		if err := config.CheckDepot(e.DepotDir); err != nil {
			e.add("configuration", Fault, err.Error(), "name the depot without it")
			return false
		}
		conf.Depot.Dir = e.DepotDir
	}
	if e.Listen != "" {
		conf.Listen = e.Listen
	}
	specs, err := conf.Specs()
	if err != nil {
		e.add("configuration", Fault, err.Error(), "correct it")
		return false
	}
	e.Config = conf
	text := "no file; the defaults and the environment"
	if conf.File() != "" {
		text = conf.File() + " is valid"
	}
	e.add("configuration", OK, text, "")
	if w := config.IgnoredHere(e.ConfigFile); w != "" {
		e.add("configuration", Warning, w, "")
	}
	for _, w := range conf.Warnings(specs) {
		e.add("configuration", Warning, w, "see docs/config.md")
	}
	for _, w := range conf.MissingStores() {
		e.add("configuration", Fault, w, "mount it, or remove it from the key stores")
	}
	for _, w := range conf.Watch {
		if info, err := os.Stat(w.Dir); !address.IsBucket(w.Dir) && (err != nil || !info.IsDir()) {
			e.add("watched folder", Warning, w.Dir+" is not there, or is no folder: its files are answered with 404",
				"mount it, or remove it from the key watch")
		}
	}
	return true
}

// split returns the errors that were joined.
func split(err error) (list []error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			list = append(list, split(e)...)
		}
		return list
	}
	return []error{err}
}

// asOwner is what to do about a depot that this user may not open.
func asOwner(where string) string {
	line := ""
	if owner, ok := account.OwnerOf(where); ok && !address.IsDatabase(where) {
		line = " (" + owner.Sudo(account.Program()...) + ")"
	}
	return "run the command as the user who owns the depot" + line + ", or share the depot with a group (depot.group)"
}

// unusable says why the depot cannot be used with what is configured.
func (e *examiner) unusable(ctx context.Context, where, blobs string, err error) {
	if errors.Is(err, fs.ErrPermission) && e.denied(home.Denied(ctx, where)) {
		return
	}
	do := "check the address and the credentials of the bucket"
	switch {
	case errors.Is(err, fs.ErrPermission):
		do = asOwner(where)
	case blobs == "":
		do = "name the folder or the database of the depot, with --depot or the key depot.dir"
	}
	e.add("depot", Fault, err.Error(), do)
}

// unopened says why the depot cannot be opened.
func (e *examiner) unopened(i *home.Inspection, err error) {
	switch {
	case errors.Is(err, home.ErrNoDepot):
		e.add("depot", Warning, err.Error(), "that is fine before the first symdepot add or serve; else name it with --depot or the key depot")
	case address.IsDatabase(i.Name) && errors.Is(err, fs.ErrNotExist):
		e.add("depot", Warning, i.Name+" has no tables yet",
			"that is fine before the first symdepot add or serve, which make them; else name the right database")
	case errors.Is(err, home.ErrOlder):
		e.add("depot", Warning, err.Error(),
			"the next symdepot serve or add upgrades it; make a backup first (symdepot depot backup, of the old version)")
	case errors.Is(err, home.ErrNewer), errors.Is(err, home.ErrUnreleased), errors.Is(err, home.ErrMoved):
		e.add("depot", Fault, err.Error(), "")
	case e.denied(i.Denied, i.DeniedFiles):
	case errors.Is(err, fs.ErrPermission):
		e.add("depot", Fault, err.Error(), asOwner(i.Name))
	case address.IsDatabase(i.Name):
		e.list = append(e.list, databaseAway(i.Name, err))
	default:
		e.add("depot", Fault, err.Error(),
			"symdepot depot restore brings a backup back; without one, move index.db away and symdepot import the folder blobs into a new depot")
	}
}

// depot examines the depot, its database, its disk and its bucket.
func (e *examiner) depot(ctx context.Context) {
	where, err := e.Config.DepotDir()
	if err != nil {
		e.add("depot", Fault, err.Error(), "")
		return
	}
	if _, err := setup.ActAsOwner(where); err != nil {
		e.add("depot", Fault, err.Error(), "")
		return
	}
	blobs := e.Blobs
	if blobs == "" && where == e.Config.Depot.Dir {
		blobs = e.Config.Depot.Blobs
	}
	var opt depot.Options
	if err := setup.UseDepot(e.Config, where, blobs, &opt); err != nil {
		e.unusable(ctx, where, blobs, err)
		return
	}
	i, err := home.Inspect(ctx, where, opt.Home())
	e.Depot = i
	if i.Contents != "" {
		if i.Store != nil {
			e.list = append(e.list, store(i.Contents, i.Store))
		} else {
			e.add("object store", OK, i.Contents+": an object was written, read, listed and deleted", "")
		}
		for _, w := range i.Warnings {
			e.add("object store", Warning, w, "")
		}
	}
	if err != nil {
		e.unopened(&i, err)
		return
	}
	transactions, contents := term.Count(i.Stats.Transactions, "build"), term.Count(i.Stats.Contents, "content")
	e.add("depot", OK, fmt.Sprintf("%s: %s, %s, %s", i.Name, transactions, contents, term.Size(i.Stats.Bytes)), "")
	e.database(&i)
	e.tokens(i.Tokens)
	if !e.denied(i.Denied, i.DeniedFiles) && i.Unwritable != "" {
		e.add("depot", Fault, "this user may not write to "+i.Unwritable+": nothing can be added",
			"run the program as the owner of the depot, or share it with a group (depot.group)")
	}
	if i.Modes != "" {
		e.add("depot", Warning, i.Modes, "")
	}
	e.list = append(e.list, Disk(i.Total, i.Free, i.Space), Stored(i.Scrub, i.Checked, nil))
	if i.Aside > 0 {
		e.add("stored files", Warning, fmt.Sprintf("%s in %s: verify --repair moved them there because they are damaged",
			term.Count(int64(i.Aside), "file"), i.AsideDir),
			"run symdepot verify: what it names is lost until the same files are added again; then delete the files in that folder")
	}
}

// denied adds the finding that n files and folders of the depot may not be used: why is what
// refuses the first one. It reports whether there are any.
func (e *examiner) denied(why *account.DeniedError, n int64) bool {
	if why == nil {
		return false
	}
	do := "type: " + why.Cure
	if why.Path == why.Root {
		do = strings.TrimPrefix(do+", or share the depot with a group (depot.group)", "type: , or ")
	}
	e.add("depot", Fault, why.Of(n), do)
	return true
}

// slowAnswer is how long a small query may take.
const slowAnswer = 50 * time.Millisecond

// database says what was found of the database.
func (e *examiner) database(i *home.Inspection) {
	db := &i.Database
	text := fmt.Sprintf("%s, format %d of %d, answers in %s", db.Database, db.Format, db.Known, db.RoundTrip.Round(10*time.Microsecond))
	switch {
	case len(i.Faults) > 0:
		for _, f := range i.Faults {
			e.add("database", Fault, f, "restore a backup (symdepot depot restore), or start over with symdepot import of the stored files")
		}
	case db.RoundTrip > slowAnswer:
		e.add("database", Warning, text+": every lookup takes at least that long",
			"look at the load of the machine, and at the network between server and database")
	case i.Unchecked:
		e.add("database", OK, text+"; its files are too large to be checked here", "symdepot verify checks them")
	default:
		e.add("database", OK, text, "")
	}
	if address.IsDatabase(i.Name) {
		e.list = append(e.list, clock("the database", db.Clock.Sub(db.Here)))
	}
}

// certificates examines those of the listener.
func (e *examiner) certificates() {
	opt := setup.TLSOptions(e.Config)
	if opt == nil {
		return
	}
	if opt.ACME != nil {
		if err := readableDir(opt.ACME.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			e.add("certificate", Fault, err.Error(), "give the user of the server the rights on tls.acme.dir")
			return
		}
		for _, domain := range opt.ACME.Domains {
			e.list = append(e.list, obtained(opt.ACME.Dir, domain, time.Now()))
		}
		return
	}
	t, err := auth.NewTLS(auth.TLSConfig{Cert: opt.Cert, Key: opt.Key, ClientCA: opt.ClientCA}, nil, nil)
	if err != nil {
		e.add("certificate", Fault, err.Error(), "the server does not start with it: correct tls.cert and tls.key")
		return
	}
	defer t.Close()
	e.list = append(e.list, Certificate(t.Expires(), time.Now()))
	for _, host := range e.Config.Hosts {
		if err := t.Covers(host); err != nil {
			e.add("certificate", Warning, fmt.Sprintf("it is not for the host %s: %v", host, err), "get one that names all of the key hosts")
		}
	}
	if info, err := os.Stat(opt.Key); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o004 != 0 {
		e.add("certificate", Warning, "every user of this machine may read the key "+opt.Key, "chmod o-r "+opt.Key)
	}
}

// obtained says how long the certificate that was obtained for a domain is valid.
func obtained(dir, domain string, now time.Time) Finding {
	const reach = "port 443 of the domain must lead to this server, and this server must reach the authority; the log of " +
		"the server says what failed"
	b, err := os.ReadFile(filepath.Join(dir, domain))
	if errors.Is(err, fs.ErrNotExist) {
		return Finding{
			"certificate", Warning, "none was obtained for " + domain + " yet",
			"it is asked for at the first connection to " + domain + ": " + reach,
		}
	}
	if err != nil {
		return Finding{"certificate", Fault, err.Error(), "give the user of the server the rights on tls.acme.dir"}
	}
	pair, err := tls.X509KeyPair(b, b)
	if err != nil {
		return Finding{"certificate", Fault, filepath.Join(dir, domain) + ": " + err.Error(), "remove the file, and restart the server"}
	}
	f := Certificate(pair.Leaf.NotAfter, now)
	f.Text = domain + ": " + f.Text
	if f.State != OK { // it should have been renewed when a third of its time was left
		f.Text, f.Do = f.Text+", and was not renewed", reach
	}
	return f
}

func readableDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return f.Close()
}

// transcoderTime limits the test runs of all transcoders.
const transcoderTime = 2 * time.Minute

// transcoders tests each one, as the server does when it starts.
func (e *examiner) transcoders(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, transcoderTime)
	defer cancel()
	list, err := setup.TestTranscoders(ctx, e.Config)
	if err != nil {
		e.add("transcoder", Fault, err.Error(), "correct the keys below transcoding")
	}
	for _, s := range list {
		switch {
		case s.Err != nil:
			e.add("transcoder", Fault, s.Name+": no SymCache file is made with it: "+s.Err.Error(),
				"run it by hand on a PDB as the user of the server; a running server tries it again every minute, and at once when its files change")
		case s.Tested.IsZero():
			e.add("transcoder", Unknown, s.Name+": its test run did not end within "+transcoderTime.String(),
				"run it by hand on a PDB as the user of the server")
		default:
			e.add("transcoder", OK, s.Name+" makes version "+s.Version.String(), "")
		}
	}
}

// upstreamTime limits the question to an upstream.
const upstreamTime = 5 * time.Second

// upstreams asks every upstream.
func (e *examiner) upstreams(ctx context.Context) {
	specs, err := e.Config.Specs()
	if err != nil || len(specs) == 0 {
		return
	}
	d := setup.Dialer(e.Config)
	probes := make([]sympath.Probed, len(specs))
	var asked sync.WaitGroup
	for i, s := range specs {
		if e.Config.NoEgress && s.Type != upstream.TypeFolder {
			continue
		}
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, upstreamTime)
			defer cancel()
			probes[i] = sympath.Probe(ctx, d, s)
		})
	}
	asked.Wait()
	compared := false
	for i, s := range specs {
		p := probes[i]
		e.upstream(&s, &p)
		if !p.Date.IsZero() && !compared {
			compared = true
			e.list = append(e.list, clock("the upstream "+s.Name, p.Skew))
		}
	}
}

// upstream says what one upstream answered.
func (e *examiner) upstream(s *upstream.Spec, p *sympath.Probed) {
	name := s.Name + " (" + s.Shown() + ")"
	if open := e.Server.breaker(s.Name); open != "" {
		e.add("upstream", Warning, name+": the running server does not ask it at the moment: "+open,
			"if it answers again, close the circuit breaker on the page of upstreams, or wait")
	}
	switch secret := s.Credentials.Token != "" || s.Credentials.Password != "" || s.Credentials.User != ""; {
	case e.Config.NoEgress && s.Type != upstream.TypeFolder:
		e.add("upstream", OK, name+": not asked, because of no_egress", "")
	case !p.Reachable && strings.Contains(p.Error, "tls: "):
		e.add("upstream", Warning, name+" "+p.String()+"; files that only it has are missing",
			"renew the certificate of that server, or let this machine trust its authority (SSL_CERT_FILE)")
	case !p.Reachable:
		e.add("upstream", Warning, name+" "+p.String()+"; files that only it has are missing",
			"check the address, the network, the proxy (HTTPS_PROXY) and the firewall")
	case p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden && secret:
		e.add("upstream", Warning, fmt.Sprintf("%s answers %d: it refuses the credentials, or wants some", name, p.Status),
			"renew the credentials of this upstream in the configuration")
	case p.Error != "":
		e.add("upstream", Warning, name+" "+p.String(), "")
	default:
		e.add("upstream", OK, name+" "+p.String(), "")
	}
}

// breaker returns why the circuit breaker of an upstream is open; empty if it is not.
func (s *Server) breaker(name string) string {
	i := slices.IndexFunc(s.Upstreams, func(u Upstream) bool { return u.Name == name && u.Open })
	if i < 0 {
		return ""
	}
	if why := strings.TrimSpace(s.Upstreams[i].Why); why != "" {
		return why
	}
	return "its circuit breaker is open"
}
