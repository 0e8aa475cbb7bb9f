package crash

import "github.com/symdepot/symdepot/symfile"

// Lacking returns the lookups of files that would make the stacks better: debug information, or a program
// for its unwind rules. Modules without a frame lack nothing.
func (a *Analysis) Lacking() (list []symfile.Lookup) {
	for k, i := range a.modules {
		n := &a.answer.Modules[k]
		q := n.Query()
		if n.DebugStatus == "missing" && q.DebugID != "" {
			list = append(list, symfile.Lookup{ID: symfile.Fold(q.DebugID), Role: symfile.Debug | symfile.Symbols})
		}
		if n.UnwindStatus != "missing" || a.states[i].ruleless {
			continue
		}
		switch {
		case q.DebugID != "":
			list = append(list, symfile.Lookup{ID: symfile.Fold(q.DebugID), Role: symfile.Executable | symfile.Symbols})
		case q.CodeID != "":
			name := symfile.Fold(symfile.BaseName(n.CodeFile))
			list = append(list, symfile.Lookup{Name: name, ID: symfile.Fold(q.CodeID), Role: symfile.Executable})
		}
	}
	return list
}
