package pages

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/oauth"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// programPages are the pages where a person lets a program log in.
type programPages struct{ loginPages }

func (s programPages) routes() []pageRoute {
	return []pageRoute{
		page(http.MethodGet, "oauth/authorize", web.Anyone, "", s.showAuthorize),
		page(http.MethodPost, "oauth/authorize", web.Anyone, "", s.doAuthorize),
		page(http.MethodGet, oauth.DeviceWord, web.Anyone, "", s.showDevice),
		page(http.MethodPost, oauth.DeviceWord, web.Anyone, "", s.doDevice),
	}
}

// allowView is what the pages show of a program that asks for a login.
type allowView struct {
	auth.Program          // without a code, it is on the machine of the browser
	Who          string   // whose rights the program gets
	Words        []string // what they are
	Error        string
}

// person returns the gate for a person who may let programs log in.
func (s programPages) person(r *web.Request) (*auth.Gate, error) {
	gate, err := s.signIns(r)
	if err != nil {
		return nil, err
	}
	if r.Anonymous {
		return nil, &web.Problem{Word: "credentials"}
	}
	return gate, problemOf(auth.MayAllow(&r.Identity))
}

// problemOf returns the problem that an error of the gate is, if it is one of the person.
func problemOf(err error) error {
	if no, ok := errors.AsType[*auth.NotAllowedError](err); ok {
		return &web.Problem{Word: "forbidden", Detail: no.Text}
	}
	if late, ok := errors.AsType[*auth.DelayedError](err); ok {
		return &web.Problem{Word: "rate", Detail: late.Error()}
	}
	if errors.Is(err, auth.ErrManyRequests) {
		return &web.Problem{Word: "rate", Detail: err.Error()}
	}
	return err
}

// allowing describes a program for the person who may let it log in.
func allowing(r *web.Request, p auth.Program) allowView {
	me := web.Whoami(&r.Principal)
	return allowView{Program: p, Who: me.Name, Words: me.Words}
}

// authorization reads the request of a program that a browser brings. If to is not empty, the
// browser takes the answer there.
func (s programPages) authorization(r *web.Request) (a *oauth.Authorization, to string, err error) {
	a, err = oauth.ReadAuthorization(r.URL.Query())
	if refusal, ok := errors.AsType[*oauth.Error](err); ok {
		return nil, a.Refuse(oauth.Issuer(r), refusal), nil
	}
	return a, "", err
}

// showAuthorize answers GET oauth/authorize: may the program log in?
func (s programPages) showAuthorize(w *reply, r *web.Request, _ []string) error {
	if _, err := s.person(r); err != nil {
		return err
	}
	a, to, err := s.authorization(r)
	if err != nil {
		return err
	}
	if to != "" {
		return seeOther(w, r, to)
	}
	w.formTo = a.FormTarget()
	return w.show(r, http.StatusOK, "allow", "Log in", allowing(r, auth.ProgramOf(r.Client(), a.Machine)))
}

// doAuthorize answers POST oauth/authorize.
func (s programPages) doAuthorize(w *reply, r *web.Request, _ []string) error {
	gate, err := s.person(r)
	if err != nil {
		return err
	}
	a, to, err := s.authorization(r)
	if err != nil {
		return err
	}
	if to != "" {
		return seeOther(w, r, to)
	}
	may, _, err := readAnswer(r)
	if err != nil {
		return err
	}
	if !may {
		return seeOther(w, r, a.Refuse(oauth.Issuer(r), oauth.Denied()))
	}
	code, err := gate.AllowCode(r.Context(), &r.Identity, &r.Rights, auth.ProgramOf(r.Client(), a.Machine), a.Challenge, a.Redirect)
	if err != nil {
		return problemOf(err)
	}
	return seeOther(w, r, a.Allow(oauth.Issuer(r), code))
}

// readAnswer reads the answer of the person: one of the two buttons.
func readAnswer(r *web.Request) (may bool, form url.Values, err error) {
	if form, err = readForm(r); err != nil {
		return false, nil, err
	}
	switch form.Get("answer") {
	case "allow":
		return true, form, nil
	case "deny":
		return false, form, nil
	}
	return false, nil, web.BadMember("the form has no answer", "answer", "allow or deny is expected")
}

// showDevice answers GET device: the person types the code that a program shows, or has come
// with it.
func (s programPages) showDevice(w *reply, r *web.Request, _ []string) error {
	gate, err := s.person(r)
	if err != nil {
		return err
	}
	code := strings.TrimSpace(r.URL.Query().Get("code"))
	if code == "" {
		f := w.frame(r, "Log in a program", allowView{})
		f.Notice = notices[r.URL.Query().Get("done")]
		return w.print(r, http.StatusOK, "device", f)
	}
	program, err := gate.Asked(r.Client(), &r.Identity, code)
	if errors.Is(err, auth.ErrCode) {
		return s.wrongCode(w, r, code)
	}
	if err != nil {
		return problemOf(err)
	}
	return w.show(r, http.StatusOK, "allow", "Log in", allowing(r, program))
}

// wrongCode shows the page for the code again.
func (s programPages) wrongCode(w *reply, r *web.Request, code string) error {
	const long = 20
	if len(code) > long {
		code = strings.ToValidUTF8(code[:long], "")
	}
	const text = "No program waits for this code. It is wrong, has expired, or was answered already."
	v := allowView{Program: auth.Program{UserCode: code}, Error: text}
	return w.show(r, http.StatusNotFound, "device", "Log in a program", v)
}

// doDevice answers POST device.
func (s programPages) doDevice(w *reply, r *web.Request, _ []string) error {
	gate, err := s.person(r)
	if err != nil {
		return err
	}
	may, form, err := readAnswer(r)
	if err != nil {
		return err
	}
	program, err := gate.Answer(r.Client(), &r.Identity, &r.Rights, form.Get("code"), may)
	if errors.Is(err, auth.ErrCode) {
		return s.wrongCode(w, r, form.Get("code"))
	}
	if err != nil {
		return problemOf(err)
	}
	s.log.Info("a person answered a program that asks for a login", "request", r.ID, "who", r.Name, "may", may, "machine", program.Machine,
		"remote", program.Address)
	done := "denied"
	if may {
		done = "let"
	}
	return seeOther(w, r, link(r.Base, oauth.DeviceWord, nil, values("done", done)))
}
