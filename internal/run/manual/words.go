package manual

import (
	"slices"
	"strings"
)

// PeerCommands says what the words of other programs are called here: those of symstore,
// debuginfod, sentry-cli, git, aws, docker and kubectl, of tools for symbols, and everyday words.
// Each row has words, and the command lines that are meant, without the name of the program.
var PeerCommands = [][2]string{
	{"search lookup locate grep resolve debuginfod-find", "find NAME"},
	{"query", "find NAME|list"},
	{"ls", "token list|jobs list|cache list|cab list FILE"},
	{"dir log history builds releases transactions versions products", "list"},
	{"info inspect describe details view cat stat display print", "show NUMBER|identify PATH"},
	{"file id ids readelf dumpbin dwarfdump nm difutil", "identify PATH"},
	{"upload upload-dif upload-dsym upload-sym debug-files dif send submit publish deploy", "push --server URL PATH|add PATH"},
	{"put store index ingest insert save", "add PATH|push --server URL PATH"},
	{"load restore recover", "depot restore --from DIR|undo NUMBER"},
	{"del delete remove erase drop unpublish", "rm NUMBER|token revoke ID|cache drop"},
	{"start run server daemon up http listen host debuginfod web", "serve --add PATH"},
	{"init setup install new-depot", "serve --add PATH|config print"},
	{"configure settings conf env options", "config check|config print"},
	{"download fetch pull clone wget curl", "get NAME ID|prefetch --folder DIR"},
	{"cp copy sync rsync", "import TREE|export --layout LAYOUT DIR|get NAME ID"},
	{"mirror relay cache-proxy", "proxy|prefetch --folder DIR"},
	{"status healthcheck ping ready", "doctor|health|verify|config check|policy check FILE|path check PATH"},
	{"fsck scrub validate chkdsk", "verify"},
	{"explain debug diagnose troubleshoot symchk chk", "why PATH|doctor"},
	{"prune cleanup clean vacuum purge expire age sweep", "gc|policy preview|rm --purge NUMBER"},
	{"retention keep rules lifecycle", "policy preview|policy set FILE"},
	{"backup snapshot dump", "depot backup --to DIR"},
	{"migrate move mv rename", "depot migrate --to DEPOT"},
	{"revert rollback undelete untrash reset", "undo NUMBER"},
	{"auth user users account key keys password apikey credentials", "token new --name NAME"},
	{"create make generate mk", "token new --name NAME|cab create FILE|bundle FILE"},
	{"revoke", "token revoke ID"},
	{"pin lock protect", "hold NUMBER REASON"},
	{"unpin unlock release", "unhold NUMBER"},
	{"tag label annotate note message", "comment NUMBER TEXT|promote NUMBER --class CLASS"},
	{"queue tasks ps", "jobs"},
	{"worker workers agent runner transcode", "work"},
	{"du df size space quota", "disk"},
	{"notfound wanted failed", "missing"},
	{"addr2line llvm-symbolizer symbolize symbolise stackwalk decode atos eu-addr2line", "symbolicate -e FILE ADDRESS"},
	{"dump_syms dumpsyms breakpad sym", "dump-syms FILE"},
	{"pdbstr srctool sourcelink source sources", "srcsrv PDB|push --sources DIR --server URL PATH"},
	{"dsym dsyms uuid", "dsymforuuid UUID"},
	{"convert transform", "export --layout LAYOUT DIR"},
	{"zip pack archive package tar", "bundle FILE|cab create FILE"},
	{"unzip unpack expand extract-all x", "cab extract FILE|import FILE"},
	{"logs events access-log", "audit"},
	{"report bugreport diagnostics", "support-bundle"},
	{"man docs usage-help ? h", "help"},
}

// PeerFlags says the same of flags, without their hyphens. Of the flags that are meant, those
// count that the command has.
var PeerFlags = [][2]string{
	{"port p addr address bind http interface ip url-listen", "listen"},
	{"url endpoint remote registry base-url u s host api", "server"},
	{"dir folder d root data data-dir database db repo repository storage location", "depot output store"},
	{"tag rev revision build release build-version ver v", "version"},
	{"project app application org name t product-name", "product"},
	{"message m note description desc notes", "comment"},
	{"auth-token api-key apikey pat password token key bearer", "token-file auth"},
	{"out o dest destination to target output-dir", "output to"},
	{"file f conf config-file settings c", "config file"},
	{"dryrun simulate no-act whatif what-if preview just-print check", "dry-run"},
	{"format output-format porcelain machine", "json"},
	{"max n count top head max-count", "limit"},
	{"source src include-sources source-dir source-root with-sources", "sources"},
	{"cert certificate ssl-cert tls ssl https", "tls-cert"},
	{"private-key ssl-key cert-key", "tls-key"},
	{"proxy mirror origin backend symbol-server", "upstream"},
	{"share symbols-dir static", "store"},
	{"scan index monitor", "watch"},
	{"expires ttl expiry days", "expires"},
	{"yes y assume-yes force", "force yes-remove"},
	{"threads j workers concurrency parallelism jobs", "jobs parallel"},
	{"logging log-format log-level verbose debug vv", "log"},
	{"silent no-log", "quiet"},
	{"older-than age min-age after before", "grace unused since after"},
	{"ignore-errors continue k keep-going", "skip-unreadable"},
	{"public-url hostname external-url server-name", "host"},
	{"path", "add store"},
	{"all-flags full-help", "help-all"},
}

// peerArgument are the flags that are meant by a path behind a command that takes none.
const peerArgument = "add"

// Unknown says that a command has none of a name below it, and which may be meant: by the meaning
// of the word in other programs, or else those that are spelled alike.
func (c *Command) Unknown(word string, alike []string) string {
	return "unknown command " + word + didYouMean(c.meantCommands(word, alike))
}

// UnknownFlag says the same of a flag, which is given with its hyphens.
func (c *Command) UnknownFlag(flag string, alike []string) string {
	list := c.namedFlags(meant(PeerFlags, strings.TrimLeft(flag, "-")))
	if len(list) == 0 {
		list = c.namedFlags(strings.Join(alike, " "))
	}
	return "unknown flag " + flag + didYouMean(list)
}

// NoArgument says that a command takes none.
func (c *Command) NoArgument(word string) string {
	return strings.TrimPrefix(c.Path, "symdepot ") + " takes no argument " + word + didYouMean(c.namedFlags(peerArgument))
}

// Missing says that a command line ends where it needs one more command.
func (c *Command) Missing() string {
	if c.Path == c.Name {
		return "a command is missing"
	}
	var names []string
	for _, s := range c.Subs {
		names = append(names, s.Name)
	}
	return "a command is missing behind " + c.Name + ": " + strings.Join(names, ", ")
}

// FirstScreen returns what the program alone answers: its first steps, and the names of all
// commands by group.
func FirstScreen(steps string, root *Command) string {
	var b strings.Builder
	b.WriteString(steps)
	group := ""
	for _, c := range root.Subs {
		before := ", "
		if c.Group != group {
			group, before = c.Group, "\n"+c.Group+"\n  "
		}
		b.WriteString(before + c.Name)
	}
	b.WriteString("\n\nOne line for each command: symdepot --help\nOne command, with examples: symdepot help COMMAND\n")
	return b.String()
}

// didYouMean is the end of an error text that names what may have been meant.
func didYouMean(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return "; did you mean: " + strings.Join(list, ", or: ")
}

// meant returns what a table has for a word.
func meant(table [][2]string, word string) string {
	for _, row := range table {
		if slices.Contains(strings.Fields(row[0]), strings.ToLower(word)) {
			return row[1]
		}
	}
	return ""
}

// meantCommands returns the command lines below a command that a word may mean.
func (c *Command) meantCommands(word string, alike []string) (list []string) {
	below := c.Path + " "
	for line := range strings.SplitSeq(meant(PeerCommands, word), "|") {
		if line = "symdepot " + line; strings.HasPrefix(line, below) && line != below {
			list = append(list, line)
		}
	}
	if len(list) == 0 {
		for _, name := range alike {
			list = append(list, below+name)
		}
	}
	return list
}

// namedFlags returns those flags of a command that are named, as its help prints them.
func (c *Command) namedFlags(names string) (list []string) {
	for name := range strings.FieldsSeq(names) {
		for _, f := range c.Flags {
			switch {
			case f.Name != "--"+strings.TrimPrefix(name, "--") && (f.Short == "" || f.Short != "-"+name):
			case f.Value == "":
				list = append(list, f.Name)
			default:
				list = append(list, f.Name+"="+f.Value)
			}
		}
	}
	return list
}
