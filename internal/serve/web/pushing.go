package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/serve/auth"
)

// Pusher returns the caller of a push, which needs the right to write.
func (r *Request) Pusher() (stage.Caller, error) {
	switch {
	case r.Anonymous && !r.WritesAny:
		if len(r.Challenges) == 0 {
			return stage.Caller{}, &Problem{Word: "forbidden", Detail: "this server accepts no pushes, because no credentials are configured"}
		}
		return stage.Caller{}, &Problem{Word: "credentials", Detail: "a push needs a token with the scope write"}
	case !r.WritesAny:
		return stage.Caller{}, &Problem{
			Word: "forbidden", Detail: "a push needs a token with the scope write, and these credentials have no right to write; " +
				"make one with: symdepot token new --name NAME --scope write",
		}
	}
	return stage.Caller{
		ID: r.Identity.Maker(), Name: r.Name, Read: r.Read, Write: r.Principal.Write, Again: r.StillWrites, Class: r.Identity.Uploads.Class,
	}, nil
}

// refusals are the words of the kinds of refusals.
var refusals = map[stage.Kind]string{
	stage.NotFound: "not-found", stage.Invalid: "query", stage.TooLarge: "too-large", stage.Quota: "quota",
	stage.TooMany: "rate", stage.Busy: "busy",
	stage.NoSpace: "no-space", stage.Conflict: "conflict", stage.WrongHash: "digest", stage.Forbidden: "forbidden",
	stage.NotSymbol: "not-symbol",
	stage.Lost:      "internal",
}

// RefusalProblem returns the problem that a refusal of a stage is.
func RefusalProblem(err error) error {
	ref, ok := errors.AsType[*stage.Refusal](err)
	if !ok {
		return err
	}
	word, known := refusals[ref.Kind]
	if !known {
		word = "query"
	}
	p := &Problem{Word: word, Detail: ref.Text}
	for _, m := range ref.Missing {
		p.Missing = append(p.Missing, m.String())
	}
	return p
}

// FileUnder adds the labels of the credentials to those of a push, and refuses a product to
// which they may not add.
func FileUnder(spec *stage.Spec, r *Request, c stage.Caller) error {
	if err := applyToken(spec, &r.Identity.Uploads, r.Rights.SoleProduct()); err != nil {
		return err
	}
	if !c.Write(spec.Product) {
		return noRightTo("write to", spec.Product, r.Rights.WriteProducts)
	}
	return nil
}

// noRightTo is the problem of credentials that may not do something to a product; they may
// write to others.
func noRightTo(do, product string, others []string) *Problem {
	text := "they have no right to " + do + " the product " + strconv.Quote(Clip(product))
	if product == "" {
		text = "they have no right to " + do + " files without a product"
	}
	const most = 10
	list := strings.Join(others, ", ")
	if n := len(others); n > most {
		list = fmt.Sprintf("%s and %d more", strings.Join(others[:most], ", "), n-most)
	} else if n > 1 {
		list = strings.Join(others[:n-1], ", ") + " or " + others[n-1]
	}
	switch {
	case list == "":
	case product == "":
		text += "; give --product: " + list
	default:
		text += "; they may write to " + list
	}
	return &Problem{Word: "forbidden", Detail: text}
}

// applyToken adds the labels of uploads in a token. Its version, branch and class are
// those of all uploads: a nightly build does not become a release by a flag.
func applyToken(spec *stage.Spec, u *auth.Uploads, sole string) error {
	spec.Product = cmp.Or(spec.Product, u.Product, sole)
	for _, l := range []struct {
		what string
		to   *string
		is   string
	}{{"version", &spec.Version, u.Version}, {"branch", &spec.Branch, u.Branch}, {"class", &spec.Class, u.Class}} {
		switch {
		case l.is == "":
		case *l.to == "":
			*l.to = l.is
		case *l.to != l.is:
			return &Problem{
				Word: "forbidden", Detail: "the token is for the " + l.what + " " + strconv.Quote(l.is) + " only",
				Fields: map[string]string{l.what: "must be " + strconv.Quote(l.is) + " or empty"},
			}
		}
	}
	if b := u.Build; b != nil {
		spec.Build = stage.Build{CI: b.CI, URL: b.URL, Commit: b.Commit, Run: b.Run, Attempt: b.Attempt, Verified: true}
	}
	return nil
}

const (
	// UsageDays is how many days a request without from gets.
	UsageDays = 30
	// MaxUsageDays limits the days of a request for the whole depot or one product.
	MaxUsageDays = 3 * 366
	// MaxProductDays limits the days of a request for all products.
	MaxProductDays = 31
)

// Quotas returns the quotas of all products, in bytes.
func Quotas(ctx context.Context, s Stages) (map[string]int64, error) {
	all := func(string) bool { return true }
	l, err := s.Limits(ctx, stage.Caller{Read: all, Write: all})
	if err != nil {
		return nil, RefusalProblem(err)
	}
	quotas := map[string]int64{}
	for _, q := range l.Used {
		quotas[q.Product] = q.Bytes
	}
	return quotas, nil
}

// Limits of requests.
const (
	MaxSpecBody  = 64 << 10
	MaxCheckBody = 16 << 20
	// commitTime is how long a commit may take.
	CommitTime = 30 * time.Minute
)
