package demangle

import (
	"bufio"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	library "github.com/ianlancetaylor/demangle"
)

// byLibrary demangles a name as the library does.
func byLibrary(name string) string {
	options := []library.Option{library.LLVMStyle, library.MaxLength(maxLengthPower)}
	tree, err := library.ToAST(name, options...)
	if err != nil {
		return ""
	}
	dropReturn(tree)
	return library.ASTToString(tree, options...)
}

// TestQuickList compares the quick demangler with the library on the names in the
// file that SYMDEPOT_NAMES names, one a line.
func TestQuickList(t *testing.T) {
	path := os.Getenv("SYMDEPOT_NAMES")
	if path == "" {
		t.Skip("needs a file of mangled names, one a line: set SYMDEPOT_NAMES to its path")
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	n, quick, wrong := 0, 0, 0
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		name := sc.Text()
		n++
		got, ok := quickly(name)
		if !ok {
			if n%5000 == 0 {
				t.Logf("not quick: %s", name)
			}
			continue
		}
		quick++
		if want := byLibrary(name); got != want {
			if wrong++; wrong <= 40 {
				t.Errorf("%s\nquick   %s\nlibrary %s", name, got, want)
			}
		}
	}
	t.Logf("%d names, %d of them quick, %d wrong", n, quick, wrong)
}

// quickNames are names of the shapes that the quick demangler reads, and some that it
// leaves to the library.
var quickNames = strings.Fields(`
_Z1fv _Z1fiz _ZN1a1b1cEPKcRKi _ZNK1a1bEv _ZN1aC1Ev _ZN1aD0Ev _ZN1aIiEC2ERKS0_ _ZL1fPv _ZN12_GLOBAL__N_11fEv
_ZSt4moveIRN1a1bEEONSt16remove_referenceIT_E4typeEOS4_ _ZSt7forwardI1aEOT_RNSt16remove_referenceIS1_E4typeE
_ZNSt6vectorIiSaIiEE9push_backERKi _ZNSt6vectorIN1a1bESaIS1_EE12emplace_backIJRjEEERS1_DpOT_
_ZNSt3mapIySt10unique_ptrI1aSt14default_deleteIS1_EESt4lessIyESaISt4pairIKyS4_EEEixERS8_
_ZN1aIJEE1fIJiPcEEEvDpT_ _ZN1aplERKS_ _ZN1a1bILi5ELb1ELj3ELm7ELin2EE1fEv _ZN1aILN1b1cE2EE1dEv
_ZZN1a3runEjENKUlRKS_S1_E_clES1_S1_ _ZZ1fvENUlvE0_4_FUNEv _ZSt6__sortIPiZN1a3runEjEUlRKiS3_E_EvT_S5_T0_
_ZNSaIcEC1Ev _ZNSbIwSt11char_traitsIwESaIwEEC1Ev _ZN1aIXadL_Z1fvEEE1gEv _Z1fPFivE _Z1fRA3_i _Z1fM1aFivE _Z1fDn _ZN1aB5cxx111fEv
_ZNKR1a1fEv _ZN1acviEv _ZTV1a _ZThn8_N1a1fEv _ZGVZ1fvE1x _Z1fIiEvT_ _Z1fIJEEvDpT_ _Z1fIRiEvOT_
_Z1fIKiEvRKT_ _Z1fIRiEvOT_S2_ _Z1fIRiEvOT_OS1_ _Z1fIOiEvRT_S2_
_ZN1a1bC4ERKS0_ _ZN1aC4IiEERKT_ _ZN1aIiED4Ev _ZNSt5tupleIJP1aEEC4ILb1ELb1EEEv _Z1fPPFivE _Z1fPKFivE _Z1fRFvPKcE _Z1fKPFivE _Z1fPA3_A4_i _Z1fOA3_Kc
_Z1fPA3_PFivE _Z1fM1aKFivE _Z1fPM1aFiS_E _Z1fSt8functionIFviEE _ZTI1a _ZTSN1a1bE _ZTVN1aIiEE _ZTSFviE _ZTIPFviE _Z1fIFivEEvPT_
_ZSt12__get_helperILm0EP1aJSt14default_deleteIS0_EEERT0_RSt11_Tuple_implIXT_EJS4_DpT1_EE _ZSt3getILm1EJEEvRSt1tIXT_EJiDpT0_EE
_ZN1aIJiDpT_EE1fEv _ZN1a1fERKNS_1bIJS_S_EEE _ZN2_U1fE`)

// Whatever the quick demangler reads, the library reads to the same text.
func TestQuick(t *testing.T) {
	t.Parallel()
	same := func(name string) bool {
		got, ok := quickly(name)
		if !ok {
			return false
		}
		if want := byLibrary(name); got != want {
			t.Errorf("%s\nquick   %s\nlibrary %s", name, got, want)
		}
		return true
	}
	quick := 0
	for _, name := range quickNames {
		if same(name) {
			quick++
		}
	}
	if quick < 52 {
		t.Errorf("%d names were quick, want at least 52 of %d", quick, len(quickNames))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const bytes = "EINKPROSTZUlJDpLC14DvijcQ023_absFAMVX"
	for range 100_000 {
		b := []byte(quickNames[rng.IntN(len(quickNames))])
		for range 1 + rng.IntN(2) {
			i := 2 + rng.IntN(len(b)-2)
			switch c := bytes[rng.IntN(len(bytes))]; rng.IntN(3) {
			case 0:
				b[i] = c
			case 1:
				if len(b) > 4 {
					b = append(b[:i], b[i+1:]...)
				}
			default:
				b = append(b[:i], append([]byte{c}, b[i:]...)...)
			}
		}
		same(string(b))
	}
}

func benchNames(b *testing.B, read func(string)) {
	b.Helper()
	for range b.N {
		for _, name := range quickNames {
			read(name)
		}
	}
}

func BenchmarkQuick(b *testing.B) { benchNames(b, func(name string) { quickly(name) }) }

func BenchmarkLibrary(b *testing.B) { benchNames(b, func(name string) { byLibrary(name) }) }
