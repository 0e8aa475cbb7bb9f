package symbolicate

import "unicode/utf8"

// parsePlain parses a body of the shape that clients send: one job or a list of
// jobs, each member once and without escapes. ok is false for any other body, which
// may be valid; ParseV5 then parses it in general.
func parsePlain(body []byte) (jobs []Job, ok bool) {
	s := scanner{b: body}
	more := s.open('{')
	name, _ := s.member()
	if more && name == "jobs" {
		for more = s.open('['); more && !s.bad; more = s.next(']') {
			if !s.open('{') {
				s.bad = true
			}
			name, _ = s.member()
			jobs = append(jobs, s.job(name))
		}
		s.end('}')
	} else if more {
		jobs = append(jobs, s.job(name))
	}
	s.space()
	return jobs, !s.bad && len(jobs) > 0 && s.i == len(body)
}

// scanner reads JSON. After something unexpected it is bad, and reads on without
// meaning.
type scanner struct {
	b   []byte
	i   int
	bad bool
}

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\t' || s.b[s.i] == '\r') {
		s.i++
	}
}

// take reads one character, if it comes next.
func (s *scanner) take(c byte) bool {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// need reads one character.
func (s *scanner) need(c byte) {
	if !s.take(c) {
		s.bad, s.i = true, len(s.b)
	}
}

// open begins a list or an object, and reports whether it has an element.
func (s *scanner) open(c byte) bool {
	s.need(c)
	return !s.bad && !s.take(c+2) // ']' and '}' come two characters behind '[' and '{'
}

// next reads what follows an element: a comma before another one, or the end.
func (s *scanner) next(end byte) bool {
	if s.bad || s.take(end) {
		return false
	}
	s.need(',')
	return !s.bad
}

// end reads what follows the last element.
func (s *scanner) end(c byte) { s.need(c) }

// text reads a string without escapes.
func (s *scanner) text() string {
	s.need('"')
	first := s.i
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			t := s.b[first:s.i]
			s.i++
			if !utf8.Valid(t) {
				s.bad = true
			}
			return string(t)
		case c < ' ' || c == '\\':
			s.bad, s.i = true, len(s.b)
		default:
			s.i++
		}
	}
	s.bad = true
	return ""
}

// member reads the name of a member.
func (s *scanner) member() (name string, ok bool) {
	name = s.text()
	s.need(':')
	return name, !s.bad
}

// number reads a whole number of at most 18 digits.
func (s *scanner) number() (n int64) {
	minus := s.take('-')
	first := s.i
	if s.space(); s.i != first && minus {
		s.bad = true
	}
	for first = s.i; s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9'; s.i++ {
		if s.i-first == 18 {
			s.bad = true
			return 0
		}
		n = n*10 + int64(s.b[s.i]-'0')
	}
	if digits := s.i - first; digits == 0 || digits > 1 && s.b[first] == '0' {
		s.bad = true
	}
	if minus {
		n = -n
	}
	return n
}

// job reads the rest of an object whose first member has the given name.
func (s *scanner) job(name string) (j Job) {
	var modules, stacks, version bool
	once := func(seen *bool) {
		s.bad = s.bad || *seen
		*seen = true
	}
	for {
		switch name {
		case "memoryMap":
			once(&modules)
			s.modules(&j)
		case "stacks":
			once(&stacks)
			s.stacks(&j)
		case "version":
			once(&version)
			s.number()
		default:
			s.bad = true
		}
		if !s.next('}') {
			break
		}
		name, _ = s.member()
	}
	if !modules || !stacks || len(j.Stacks) == 0 {
		s.bad = true
	}
	for _, stack := range j.Stacks {
		for _, o := range stack {
			if o.Module < -1 || o.Module >= len(j.Modules) || o.Offset < -1 {
				s.bad = true
			}
		}
	}
	return j
}

func (s *scanner) modules(j *Job) {
	for more := s.open('['); more && !s.bad; more = s.next(']') {
		s.need('[')
		q := ModuleQuery{DebugFile: s.text()}
		s.need(',')
		q.DebugID = s.text()
		s.end(']')
		if !validModule(q) {
			s.bad = true
		}
		j.Modules = append(j.Modules, q)
	}
}

func (s *scanner) stacks(j *Job) {
	for more := s.open('['); more && !s.bad; more = s.next(']') {
		stack := []Offset{}
		for more := s.open('['); more && !s.bad; more = s.next(']') {
			s.need('[')
			module := s.number()
			s.need(',')
			offset := s.number()
			s.end(']')
			if int64(int32(module)) != module {
				s.bad = true
			}
			stack = append(stack, Offset{int(module), offset})
		}
		j.Stacks = append(j.Stacks, stack)
	}
}
