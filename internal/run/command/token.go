package command

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/run/app"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/serve/auth"
)

type tokenCmd struct {
	New    tokenNewCmd    `cmd:"" help:"Make a token and print it, once."`
	List   tokenListCmd   `cmd:"" default:"withargs" help:"List tokens, without their secrets. The default."`
	Revoke tokenRevokeCmd `cmd:"" help:"Revoke tokens."`

	Exchange tokenExchangeCmd `cmd:"" help:"In a CI job: exchange the job's id token for a token of a server, and print it."`
}

type tokenNewCmd struct {
	serverFlags
	Name    string        `help:"Purpose of the token." required:"" placeholder:"NAME"`
	Scope   []string      `help:"Rights of the token: read (default), read:public, write or admin; repeatable." placeholder:"SCOPE" sep:"none"`
	Product []string      `help:"Only this product; repeatable. Default: all." placeholder:"NAME" sep:"none"`
	Version string        `help:"Version of all files uploaded with the token, also by sentry-cli, which sends none." placeholder:"VERSION"`
	Branch  string        `help:"Branch of these files."`
	Class   string        `help:"Class of these files, by which retention rules choose, such as nightly."`
	Default string        `help:"Product of uploads that name none. Default: the only product of the token." placeholder:"PRODUCT"`
	Expires term.Duration `help:"Lifetime, such as 90d or 12h. Default: unlimited." placeholder:"TIME"`
	JSON    bool          `help:"Print one JSON object, with the secret."`
}

// Run makes a token.
func (c tokenNewCmd) Run(a *session) error {
	spec := auth.TokenSpec{Name: c.Name, CreatedBy: console.LocalUser(), Scopes: c.Scope, Products: c.Product,
		Lifetime: time.Duration(c.Expires),
		Uploads:  auth.Uploads{Product: c.Default, Version: c.Version, Branch: c.Branch, Class: c.Class}}
	if slices.Contains(spec.Products, auth.AllProducts) {
		spec.Products = nil
	}
	if c.Server != "" {
		return c.atServer(a, spec)
	}
	secret, row, err := auth.MakeToken(spec, a.Now())
	if err != nil {
		return term.UsageError(err.Error())
	}
	d, err := a.open(depot.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	unknown, err := display.UnknownProducts(a.Ctx, d, spec.Products)
	if err != nil {
		return err
	}
	a.Warn(unknown)
	if err := setup.TokensOf(d).PutToken(a.Ctx, row); err != nil {
		return err
	}
	line := app.NewToken(row, a.Now())
	line.Token = secret
	return c.print(a.Console, line)
}

// print prints a new token, once.
func (c tokenNewCmd) print(a *console.Console, line app.Token) error {
	if c.JSON {
		return term.NewJSONLines(a.Stdout).Write(line)
	}
	fmt.Fprintf(a.Stderr, "Token %s (%s). It is shown only once; `symdepot token revoke %s` revokes it.\n",
		line.ID, term.Printable(line.Name), line.ID)
	_, err := fmt.Fprintln(a.Stdout, line.Token)
	return err
}

type tokenListCmd struct {
	serverFlags
	MadeBy string `help:"Only tokens that this principal made: NAME or METHOD:NAME." placeholder:"NAME"`
	JSON   bool   `help:"Print one JSON object per token."`
}

// Run lists the tokens.
func (c tokenListCmd) Run(a *session) error {
	list, err := c.tokens(a)
	if err != nil {
		return err
	}
	if c.MadeBy != "" {
		if list = madeBy(list, c.MadeBy); len(list) == 0 {
			return a.Nothing("there are no tokens that " + c.MadeBy + " made; " + exactNames)
		}
	}
	lines := term.NewJSONLines(a.Stdout)
	t := term.NewTable(a.Stdout, "ID", "STATE", "SCOPES", "PRODUCTS", "CREATED", "EXPIRES", "LAST USED", "NAME")
	day := func(t *time.Time, none string) string {
		if t == nil {
			return none
		}
		return t.Local().Format("2006-01-02 15:04")
	}
	for _, l := range list {
		if c.JSON {
			if err := lines.Write(l); err != nil {
				return err
			}
			continue
		}
		products := "all"
		if l.Products != nil {
			products = strings.Join(l.Products, ", ")
		}
		t.Row(l.ID, l.State, strings.Join(l.Scopes, ", "), products,
			day(&l.Created, ""), day(l.Expires, "never"), day(l.LastUsed, "never"), l.Name)
	}
	if len(list) == 0 {
		return a.Nothing("there are no tokens; make one: symdepot token new --name NAME")
	}
	return t.Flush()
}

// exactNames says how --made-by finds tokens.
const exactNames = "names are compared exactly, and symdepot token list --json shows the makers"

// madeBy returns the tokens of a principal: those that it made, and those that these made.
func madeBy(list []app.Token, principal string) []app.Token {
	makers := make(map[string]string, len(list))
	for _, l := range list {
		makers[l.ID] = l.CreatedBy
	}
	return slices.DeleteFunc(list, func(l app.Token) bool { return !auth.MadeBy(makers, l.ID, principal) })
}

// tokens returns the tokens of the server or the depot, the oldest first.
func (c tokenListCmd) tokens(a *session) (list []app.Token, err error) {
	if c.Server != "" {
		s, err := c.client(a.Console)
		if err != nil {
			return nil, err
		}
		err = s.Tokens(a.Ctx, func(t wire.TokenInfo) error {
			list = append(list, app.TokenOf(t))
			return nil
		})
		return list, err
	}
	d, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	rows, err := setup.TokensOf(d).List(a.Ctx)
	for _, row := range rows {
		list = append(list, app.NewToken(row, a.Now()))
	}
	return list, err
}

type tokenRevokeCmd struct {
	serverFlags
	ID     []string `arg:"" optional:"" help:"Ids that symdepot token list prints."`
	MadeBy string   `help:"All tokens that this principal made: NAME or METHOD:NAME." placeholder:"NAME"`
}

// Run ends tokens.
func (c tokenRevokeCmd) Run(a *session) error {
	switch {
	case (c.MadeBy == "") == (len(c.ID) == 0):
		return term.UsageError("ids of tokens or --made-by NAME is expected")
	case c.MadeBy != "":
		list, err := tokenListCmd{serverFlags: c.serverFlags}.tokens(a)
		if err != nil {
			return err
		}
		for _, l := range madeBy(list, c.MadeBy) {
			if l.State != "revoked" {
				c.ID = append(c.ID, l.ID)
			}
		}
		if len(c.ID) == 0 {
			return a.Nothing("there are no tokens that " + c.MadeBy + " made and that are not revoked yet; " + exactNames)
		}
	}
	revoke, done, err := c.revoker(a)
	if err != nil {
		return err
	}
	defer done()
	var unknown error
	for _, id := range c.ID {
		if auth.IsToken(id) {
			id = auth.TokenID(id) // users often have the secret at hand
		}
		err := revoke(id)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			fmt.Fprintf(a.Stderr, "symdepot: there is no such token: %s; symdepot token list prints the ids\n", term.Printable(auth.Redact(id)))
			unknown = term.ErrNegative
		case err != nil:
			return err
		default:
			fmt.Fprintln(a.Stderr, "Token", term.Printable(id), "is revoked; running servers notice within seconds.")
		}
	}
	return unknown
}

// revoker returns what revokes a token of the server or the depot.
func (c tokenRevokeCmd) revoker(a *session) (revoke func(id string) error, done func(), err error) {
	if c.Server != "" {
		s, err := c.client(a.Console)
		return func(id string) error { return s.RevokeToken(a.Ctx, id) }, func() {}, err
	}
	d, err := a.open(depot.Options{MustExist: true})
	return func(id string) error { return setup.TokensOf(d).Revoke(a.Ctx, id) }, func() { _ = d.Close() }, err
}

// atServer makes a token of a server.
func (c tokenNewCmd) atServer(a *session, spec auth.TokenSpec) error {
	s, err := c.client(a.Console)
	if err != nil {
		return err
	}
	q := wire.TokenSpec{Name: spec.Name, Scopes: spec.Scopes, Products: spec.Products}
	if spec.Lifetime > 0 {
		q.Expires = a.Now().Add(spec.Lifetime)
	}
	if u := spec.Uploads; u != (auth.Uploads{}) {
		q.Uploads = &wire.TokenUploads{Product: u.Product, Version: u.Version, Branch: u.Branch, Class: u.Class}
	}
	t, err := s.MakeToken(a.Ctx, q)
	if err != nil {
		return err
	}
	line := app.TokenOf(t)
	line.Token = t.Token
	return c.print(a.Console, line)
}
