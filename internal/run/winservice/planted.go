package winservice

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Every user of a Windows machine may make folders in ProgramData. One that is there before
// the service, or a file in it, may be of somebody who wants to decide what the service
// runs. So an existing folder is used only if administrators, Windows or the service own
// all that is in it, nothing leads elsewhere, and nobody else has a right to any of it.

// Well-known security identifiers (MS-DTYP section 2.4.2.4), and how a security descriptor
// writes them as text (section 2.5.1).
const (
	sidSystem         = "S-1-5-18"
	sidAdministrators = "S-1-5-32-544"
)

var sidAlias = map[string]string{"SY": sidSystem, "BA": sidAdministrators}

// maxServiceName is the length of the longest name of a service, in characters.
const maxServiceName = 80

// checkName returns why a service, and so its folder in ProgramData, cannot have a name.
func checkName(name string) error {
	fits := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(" ._-", r)
	}
	switch {
	case name == "" || len(name) > maxServiceName || strings.ContainsFunc(name, func(r rune) bool { return !fits(r) }),
		strings.ContainsAny(name[:1], " .") || strings.ContainsAny(name[len(name)-1:], " ."):
		return fmt.Errorf("the name of a service is 1 to %d letters, digits and . _ -, and does not begin or end with a dot; %.100q is not",
			maxServiceName, name)
	}
	return nil
}

// found is what is known of a file or folder that a new service finds.
type found struct {
	path  string
	leads bool // a junction, a symbolic link or another reparse point
	dir   bool
	links uint32 // names that it has
	sddl  string // its owner and its rights, as text (MS-DTYP section 2.5.1)
}

// access is what the text of a security descriptor says.
type access struct {
	owner     string   // security identifier
	protected bool     // it inherits nothing
	who       []string // the security identifiers that have a right
}

// readAccess reads the text of a security descriptor. What it does not know is an error.
func readAccess(sddl string) (access, error) {
	var a access
	rest, ok := strings.CutPrefix(sddl, "O:")
	at := strings.Index(rest, "D:") // no identifier has a colon
	if !ok || at < 0 {
		return a, errors.New("it has no owner or no list of rights")
	}
	owner, _, _ := strings.Cut(rest[:at], "G:")
	a.owner = sid(owner)
	flags, list, _ := strings.Cut(rest[at+len("D:"):], "(")
	switch {
	case strings.Contains(flags, "NO_ACCESS_CONTROL"):
		return a, errors.New("everybody has all rights")
	case strings.ContainsAny(flags, ":"):
		list = "" // the list is empty, and the next one begins
	}
	a.protected = strings.Contains(flags, "P")
	for list != "" {
		entry, after, ok := strings.Cut(list, ")")
		if !ok {
			return a, errors.New("its list of rights is cut short")
		}
		// type;flags;rights;object;inherited object;account
		field := strings.Split(entry, ";")
		if len(field) != 6 || field[0] != "A" && field[0] != "D" {
			return a, fmt.Errorf("its list of rights has an entry of another kind, %.100q", entry)
		}
		if field[0] == "A" {
			a.who = append(a.who, sid(field[5]))
		}
		if after, ok = strings.CutPrefix(after, "("); !ok {
			break // the list of another kind, or the end
		}
		list = after
	}
	return a, nil
}

func sid(s string) string {
	if full, ok := sidAlias[s]; ok {
		return full
	}
	return s
}

// trusted reports whether an account may have a right to the folder of a service.
func trusted(service, account string) bool {
	return slices.Contains([]string{sidSystem, sidAdministrators, accountID(service)}, account)
}

// planted returns why somebody else may have put the file or folder there; nil: nobody has.
// It says nothing about the rights, which the folder above may give.
func (f *found) planted(service string) error {
	a, err := readAccess(f.sddl)
	switch {
	case f.leads:
		return fmt.Errorf("%s leads elsewhere: it is a junction or a link", f.path)
	case err != nil:
		return fmt.Errorf("the rights of %s: %w", f.path, err)
	case !trusted(service, a.owner):
		return fmt.Errorf("%s belongs to the account %s, not to the administrators", f.path, a.owner)
	case !f.dir && f.links > 1:
		return fmt.Errorf("%s has %d names, so that it may be changed elsewhere", f.path, f.links)
	}
	return nil
}

// open returns who else has a right to the file or folder; nil: nobody.
func (f *found) open(service string) error {
	a, err := readAccess(f.sddl)
	if err != nil {
		return fmt.Errorf("the rights of %s: %w", f.path, err)
	}
	for _, who := range a.who {
		if !trusted(service, who) {
			return fmt.Errorf("the account %s has rights to %s", who, f.path)
		}
	}
	return nil
}

// own reports whether PrepareDir has set the rights of the folder before.
func (f *found) own(service string) bool {
	a, err := readAccess(f.sddl)
	return err == nil && a.protected && f.planted(service) == nil && f.open(service) == nil
}

// foreign returns the first name in a folder that no service has made; "" if there is none.
func foreign(names []string, config string) string {
	for _, name := range names {
		if !slices.ContainsFunc([]string{config, "log", depotName}, func(own string) bool { return strings.EqualFold(own, name) }) {
			return name
		}
	}
	return ""
}
