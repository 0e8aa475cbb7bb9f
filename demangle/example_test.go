package demangle_test

import (
	"fmt"

	"github.com/symdepot/symdepot/demangle"
)

func Example() {
	for _, raw := range []string{
		"?push@?$Stack@H@@QEAAXPEBH@Z",
		"_ZN5StackIiE4pushEPKi.cold",
		"_RNvC7mycrate3foo",
	} {
		fmt.Println(demangle.Name(raw, demangle.Options{}))
	}
	// Output:
	// Stack<int>::push(int const*)
	// Stack<int>::push(int const*)
	// mycrate::foo
}

func ExampleMicrosoft() {
	text, err := demangle.Microsoft("?push@?$Stack@H@@QEAAXPEBH@Z", 0)
	fmt.Println(text, err)
	// Output: public: void __cdecl Stack<int>::push(int const *) <nil>
}
