package breakpad

import "testing"

func TestParseRecord(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]Record{
		"MODULE Linux x86_64 AA45ACAD1B2331BA43D7AF433767C61F0 prog": {Kind: ModuleRecord},
		"INFO CODE_ID 5AB380779000 a.exe":                            {Kind: CodeIDRecord},
		"INFO GENERATOR mine":                                        {Kind: InfoRecord},
		"FILE 0 a.c":                                                 {Kind: FileRecord},
		"FUNC 10 20 0 f(int)":                                        {Kind: FuncRecord, Address: 0x10, Name: 13},
		"FUNC m 10 20 0  f":                                          {Kind: FuncRecord, Address: 0x10, Name: 16},
		"FUNC 10 20 0":                                               {Kind: FuncRecord, Address: 0x10, Name: 12},
		"FUNC 10 20 f(int)":                                          {},
		"PUBLIC m 10 4 _g@4":                                         {Kind: PublicRecord, Address: 0x10, Name: 14},
		"PUBLIC 10 4":                                                {},
		"10 8 3 0":                                                   {Kind: LineRecord},
		"10 8 3 0 more":                                              {},
		"INLINE 0 3 0 0 10 8":                                        {Kind: InlineRecord},
		"INLINE_ORIGIN 0 f":                                          {Kind: OriginRecord},
		"STACK CFI INIT 10 20 .cfa: $rsp 8 + .ra: .cfa -8 + ^": {Kind: StackRecord},
		"STACK CFI 11 .cfa: $rsp 16 +":                         {Kind: StackRecord},
		"STACK WIN 4 10 8 0 0 0 0 0 0 1 $eip 4 =":              {Kind: StackRecord},
		"STACK WIN 4 10 8 0 0 0 0 0 0 2 $eip 4 =":              {},
		"STACK CFI 11 .cfa: $rsp\x01":                          {},
		"STACK CFI INIT any text":                              {},
		"STACK":                                                {},
		"URL https://example.com":                              {},
		"":                                                     {},
	} {
		if got := ParseRecord([]byte(line)); got != want {
			t.Errorf("%q: %+v, want %+v", line, got, want)
		}
	}
}
